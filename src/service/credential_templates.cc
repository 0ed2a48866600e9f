#include "service/credential_templates.h"

#include <algorithm>

#include "base/log.h"
#include "oidc/url.h"

namespace service {
namespace {

using base::fail_field;
using base::Result;
using wire::json::Array;
using wire::json::Object;
using wire::json::Reader;
using wire::json::Value;
using Secrets = std::map<std::string, base::Secret>;

constexpr size_t kNameBytesMax = 64;
constexpr size_t kAudienceBytesMax = 512;
constexpr size_t kPathBytesMax = 512;
constexpr size_t kTextBytesMax = size_t{64} * 1024;
// What a sandbox's agent takes at once is a MiB of JSON, with the tokens.
constexpr size_t kTextsTogetherMax = size_t{256} * 1024;
constexpr size_t kListMax = 32;  // of each kind of thing; one sandbox gets all of them

constexpr std::array<std::string_view, kTemplateNames> kNames{
    "token",      "token.expires_at", "gateway.url",   "issuer",
    "sandbox.id", "sandbox.team",     "sandbox.owner", "sandbox.image"};

bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= kNameBytesMax && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
  });
}

bool is_variable(std::string_view text) {
  return is_name(text) && !text.contains('-') && (text.front() < '0' || text.front() > '9');
}

bool is_audience(std::string_view text) {
  return !text.empty() && text.size() <= kAudienceBytesMax;
}

bool is_path(std::string_view path) {
  const bool is_rooted = path.starts_with('/') || path.starts_with("~/");
  return is_rooted && path.size() > 2 && path.size() <= kPathBytesMax && !path.ends_with('/') &&
         !path.contains('\0');
}

// The members of an object that is a field of another one, at most kListMax.
Result<Object> members_of(Reader& reader, std::string_view name) {
  ASSIGN_OR_RETURN(auto object, reader.optional<Object>(name));
  if (object && object->size() > kListMax) {
    const std::string field = reader.path(name);
    return fail_field(field, "'", field, "' has more than ", kListMax, " members");
  }
  return std::move(object).value_or(Object{});
}

Result<std::string> read_secret(const std::string& field, const std::string& path,
                                const ReadSecretFile& read) {
  auto text = read(path);
  if (!text) {
    return fail_field(field, "'", field, "': ", text.error().message);
  }
  text->resize(text->find_last_not_of("\r\n") + 1);
  if (text->contains('\0') || !base::is_utf8(*text)) {
    return fail_field(field, "'", field, "': ", path, " is not text in UTF-8");
  }
  return text;
}

Result<Secrets> read_secrets(Reader& reader, const ReadSecretFile& read) {
  ASSIGN_OR_RETURN(const auto files, members_of(reader, "secrets"));
  Secrets out;
  for (const auto& member : files) {
    const std::string field = base::cat("secrets.", std::string_view(member.key()));
    if (!is_name(member.key()) || !member.value().is_string()) {
      return fail_field(field, "'", field, "' must be a name with the path of a file");
    }
    ASSIGN_OR_RETURN(auto text, read_secret(field, std::string(member.value().get_string()), read));
    out.emplace(std::string(member.key()), base::Secret(std::move(text)));
  }
  return out;
}

Result<void> check_audience(const Reader& reader, std::string_view audience) {
  if (!is_audience(audience)) {
    const std::string field = reader.path("audience");
    return fail_field(field, "'", field, "' must be a text of 1 to ", kAudienceBytesMax, " bytes");
  }
  return {};
}

Result<OutsideService> parse_service(std::string name, const Value& value,
                                     const ReadSecretFile& read) {
  const std::string field = "services." + name;
  if (!is_name(name) || !value.is_object()) {
    return fail_field(field, "'", field, "' must be a name with an object");
  }
  Reader reader(value.get_object(), field);
  OutsideService service{.name = std::move(name)};
  ASSIGN_OR_RETURN(service.token_endpoint, reader.required<std::string>("token_endpoint"));
  RETURN_IF_ERROR(oidc::check_url(reader.path("token_endpoint"), service.token_endpoint));
  ASSIGN_OR_RETURN(service.audience, reader.required<std::string>("audience"));
  RETURN_IF_ERROR(check_audience(reader, service.audience));
  const std::pair<std::string_view, std::string*> texts[] = {
      {"client_id", &service.client_id},
      {"scope", &service.scope},
      {"resource", &service.resource},
      {"target_audience", &service.target},
      {"requested_token_type", &service.token_type}};
  for (const auto& [key, into] : texts) {
    ASSIGN_OR_RETURN(auto text, reader.optional<std::string>(key));
    *into = std::move(text).value_or("");
  }
  ASSIGN_OR_RETURN(const auto secret_file, reader.optional<std::string>("client_secret_file"));
  if (secret_file) {
    ASSIGN_OR_RETURN(auto text, read_secret(reader.path("client_secret_file"), *secret_file, read));
    service.client_secret = base::Secret(std::move(text));
  }
  RETURN_IF_ERROR(reader.finish());
  return service;
}

Result<TokenSource> read_source(Reader& reader, const CredentialSettings& settings) {
  ASSIGN_OR_RETURN(auto audience, reader.optional<std::string>("audience"));
  ASSIGN_OR_RETURN(auto service, reader.optional<std::string>("service"));
  if (audience && service) {
    const std::string field = reader.path("service");
    return fail_field(field, "'", field, "' does not go with 'audience'");
  }
  if (audience) {
    RETURN_IF_ERROR(check_audience(reader, *audience));
    return TokenSource{.kind = TokenSource::Kind::audience, .name = std::move(*audience)};
  }
  if (!service) {
    return TokenSource{};
  }
  if (settings.find_service(*service) == nullptr) {
    const std::string field = reader.path("service");
    return fail_field(field, "'", field, "': there is no service '", *service, "'");
  }
  return TokenSource{.kind = TokenSource::Kind::service, .name = std::move(*service)};
}

Result<std::vector<TemplateFile>> read_files(Reader& reader, const Secrets& secrets) {
  ASSIGN_OR_RETURN(const auto files, members_of(reader, "files"));
  std::vector<TemplateFile> out;
  for (const auto& member : files) {
    const std::string field = base::cat(reader.path("files"), ".", std::string_view(member.key()));
    if (!is_path(member.key()) || !member.value().is_string()) {
      return fail_field(field, "'", field, "' must be a path that begins with / or ~/ with a text");
    }
    ASSIGN_OR_RETURN(auto text, TemplateText::parse(field, member.value().get_string(), secrets));
    out.push_back({.path = std::string(member.key()), .content = std::move(text)});
  }
  return out;
}

Result<std::vector<TemplateVariable>> read_variables(Reader& reader, const Secrets& secrets) {
  ASSIGN_OR_RETURN(const auto variables, members_of(reader, "variables"));
  std::vector<TemplateVariable> out;
  for (const auto& member : variables) {
    const std::string field =
        base::cat(reader.path("variables"), ".", std::string_view(member.key()));
    if (!is_variable(member.key()) || !member.value().is_string()) {
      return fail_field(field, "'", field, "' must be a variable's name with a text");
    }
    ASSIGN_OR_RETURN(auto text, TemplateText::parse(field, member.value().get_string(), secrets));
    out.push_back({.name = std::string(member.key()), .value = std::move(text)});
  }
  return out;
}

Result<CredentialTemplate> parse_template(std::string name, const Value& value,
                                          const CredentialSettings& settings,
                                          const Secrets& secrets) {
  const std::string field = "templates." + name;
  if (!is_name(name) || !value.is_object()) {
    return fail_field(field, "'", field, "' must be a name with an object");
  }
  Reader reader(value.get_object(), field);
  CredentialTemplate out{.name = std::move(name)};
  ASSIGN_OR_RETURN(out.source, read_source(reader, settings));
  ASSIGN_OR_RETURN(out.files, read_files(reader, secrets));
  ASSIGN_OR_RETURN(out.variables, read_variables(reader, secrets));
  RETURN_IF_ERROR(reader.finish());
  if (out.files.empty() && out.variables.empty()) {
    return fail_field(field, "'", field, "' has neither 'files' nor 'variables'");
  }
  return out;
}

// Two templates that say different things of one file would write it in turn.
Result<void> check_distinct(const std::vector<CredentialTemplate>& templates) {
  std::vector<std::string> names;
  for (const CredentialTemplate& one : templates) {
    for (const TemplateFile& file : one.files) {
      names.push_back(file.path);
    }
    for (const TemplateVariable& variable : one.variables) {
      names.push_back("$" + variable.name);
    }
  }
  std::ranges::sort(names);
  const auto twice = std::ranges::adjacent_find(names);
  if (twice != names.end()) {
    return fail_field("templates", "two templates in use have '", *twice, "'");
  }
  return {};
}

// A sandbox gets all of them at once.
Result<void> check_size(const std::vector<CredentialTemplate>& templates) {
  size_t bytes = 0;
  for (const CredentialTemplate& one : templates) {
    for (const TemplateFile& file : one.files) {
      bytes += file.content.render({}).size();
    }
    for (const TemplateVariable& variable : one.variables) {
      bytes += variable.value.render({}).size();
    }
  }
  if (bytes > kTextsTogetherMax) {
    return fail_field("templates", "the texts of all templates have more than ", kTextsTogetherMax,
                      " bytes together");
  }
  return {};
}

Result<void> read_audiences(Reader& reader, CredentialSettings& settings) {
  ASSIGN_OR_RETURN(auto audiences, reader.optional<std::vector<std::string>>("audiences"));
  settings.audiences = std::move(audiences).value_or(std::vector<std::string>{});
  if (settings.audiences.size() > kListMax ||
      !std::ranges::all_of(settings.audiences, is_audience)) {
    return fail_field("audiences", "'audiences' must be at most ", kListMax, " texts of 1 to ",
                      kAudienceBytesMax, " bytes");
  }
  return {};
}

Result<void> add_shipped(const std::vector<std::string>& names, CredentialSettings& settings) {
  if (names.empty()) {
    return {};
  }
  ASSIGN_OR_RETURN(const auto all, wire::json::parse_object(shipped_templates()));
  for (const std::string& name : names) {
    const Value* value = all.if_contains(name);
    if (value == nullptr) {
      return fail_field("credentials", "credentials: no template '", name, "' is shipped");
    }
    ASSIGN_OR_RETURN(auto parsed, parse_template(name, *value, settings, {}));
    settings.templates.push_back(std::move(parsed));
  }
  return {};
}

}  // namespace

Result<TemplateText> TemplateText::parse(const std::string& field, std::string_view text,
                                         const Secrets& secrets) {
  if (text.size() > kTextBytesMax || text.contains('\0')) {
    return fail_field(field, "'", field, "' must have at most ", kTextBytesMax,
                      " bytes and no NUL");
  }
  constexpr std::string_view kSecret = "secret.";
  constexpr std::string_view kJson = "json ";
  TemplateText out;
  while (!text.empty()) {
    const size_t open = text.find("{{");
    if (open != 0) {
      out.pieces_.push_back({.text = std::string(text.substr(0, open))});
      text.remove_prefix(std::min(open, text.size()));
      continue;
    }
    const size_t close = text.find("}}");
    if (close == std::string_view::npos) {
      return fail_field(field, "'", field, "': a '{{' has no '}}'");
    }
    std::string_view name = base::trim(text.substr(2, close - 2));
    text.remove_prefix(close + 2);
    Piece piece{.as_json = name.starts_with(kJson)};
    if (piece.as_json) {
      name = base::trim(name.substr(kJson.size()));
    }
    const auto known = std::ranges::find(kNames, name);
    if (known != kNames.end()) {
      piece.is_value = true;
      piece.name = static_cast<TemplateName>(known - kNames.begin());
    } else if (const auto secret = name.starts_with(kSecret)
                                       ? secrets.find(std::string(name.substr(kSecret.size())))
                                       : secrets.end();
               secret != secrets.end()) {
      piece.text = secret->second.reveal();  // becomes a part of what only the sandbox gets
    } else {
      return fail_field(field, "'", field, "': there is no '", name, "'");
    }
    if (!piece.is_value && std::exchange(piece.as_json, false)) {
      std::string quoted;
      base::append_json_string(quoted, piece.text);
      piece.text = std::move(quoted);
    }
    out.pieces_.push_back(std::move(piece));
  }
  return out;
}

std::string TemplateText::render(const TemplateValues& values) const {
  std::string out;
  for (const Piece& piece : pieces_) {
    const std::string& text =
        piece.is_value ? values.at(static_cast<size_t>(piece.name)) : piece.text;
    if (piece.as_json) {
      base::append_json_string(out, text);
    } else {
      out += text;
    }
  }
  return out;
}

const OutsideService* CredentialSettings::find_service(std::string_view name) const {
  const auto found = std::ranges::find(services, name, &OutsideService::name);
  return found == services.end() ? nullptr : &*found;
}

std::string_view shipped_templates() {
  // sandbox: our own command line and clients. gatana: those of the agentic-sandbox API.
  return R"json({
    "sandbox": {
      "files": {
        "~/.config/sandbox/config.json":
          "{\"url\":{{ json gateway.url }},\"token\":{{ json token }}}\n"
      },
      "variables": {
        "SANDBOX_GATEWAY_URL": "{{ gateway.url }}",
        "SANDBOX_GATEWAY_CONFIG": "~/.config/sandbox/config.json"
      }
    },
    "gatana": {
      "files": {
        "~/.gatana.config":
          "{\"defaultOrgId\":\"sandbox\",\"orgs\":{\"sandbox\":{)json"
         R"json(\"baseUrl\":\"{{ gateway.url }}/api/v1\",\"apiKey\":{{ json token }}}}}\n"
      },
      "variables": {
        "GATANA_API_KEY": "{{ token }}"
      }
    }
  })json";
}

Result<CredentialSettings> parse_credentials(const Object& document,
                                             const std::vector<std::string>& shipped,
                                             const ReadSecretFile& read) {
  Reader reader(document);
  CredentialSettings settings;
  RETURN_IF_ERROR(read_audiences(reader, settings));
  ASSIGN_OR_RETURN(const auto secrets, read_secrets(reader, read));
  ASSIGN_OR_RETURN(const auto services, members_of(reader, "services"));
  for (const auto& member : services) {
    ASSIGN_OR_RETURN(auto service, parse_service(std::string(member.key()), member.value(), read));
    settings.services.push_back(std::move(service));
  }
  RETURN_IF_ERROR(add_shipped(shipped, settings));
  ASSIGN_OR_RETURN(const auto templates, members_of(reader, "templates"));
  for (const auto& member : templates) {
    ASSIGN_OR_RETURN(auto parsed,
                     parse_template(std::string(member.key()), member.value(), settings, secrets));
    settings.templates.push_back(std::move(parsed));
  }
  RETURN_IF_ERROR(reader.finish());
  RETURN_IF_ERROR(check_distinct(settings.templates));
  RETURN_IF_ERROR(check_size(settings.templates));
  return settings;
}

}  // namespace service
