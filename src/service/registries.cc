#include "service/registries.h"

#include <algorithm>

#include "base/host.h"
#include "model/image_reference.h"
#include "service/sealing.h"
#include "service/sign_in_settings.h"
#include "wire/json.h"

namespace service {
namespace {

using base::ErrorCode;
using base::fail_field;
using base::Result;

constexpr size_t kSecretBytesMax =
    size_t{16} * 1024;  // cloud registries give tokens of several KiB
constexpr size_t kRegistriesMax = 1000;

std::string purpose(const std::string& team, const std::string& host) {
  return seal_purpose(store::SealedKind::registry, base::cat(team, " ", host));
}

// host[:port], in the form it has in a normalised reference.
bool is_host(std::string_view text) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == ':' ||
           c == '[' || c == ']';
  };
  return !text.empty() && text.size() <= base::kHostBytesMax && std::ranges::all_of(text, allowed);
}

bool is_mirror(std::string_view text) {
  constexpr std::string_view kPlain = "http://";
  return is_host(text.starts_with(kPlain) ? text.substr(kPlain.size()) : text);
}

RegistryView view_of(const store::Registry& row) {
  return {.host = row.host,
          .username = row.username,
          .mirror = row.mirror,
          .plain_http = row.plain_http,
          .has_secret = !row.secret_sealed.empty()};
}

struct Parsed {
  store::Registry row;
  base::Secret secret;
};

Result<Parsed> parse(std::string host, std::string_view body) {
  if (!is_host(host)) {
    return fail_field("host", "the registry must be a host in lower case, optionally with a port");
  }
  ASSIGN_OR_RETURN(const auto object, wire::json::parse_object(body));
  wire::json::Reader reader(object);
  ASSIGN_OR_RETURN(auto username, reader.optional<std::string>("username"));
  ASSIGN_OR_RETURN(auto password, reader.optional<std::string>("password"));
  ASSIGN_OR_RETURN(auto token, reader.optional<std::string>("token"));
  ASSIGN_OR_RETURN(auto mirror, reader.optional<std::string>("mirror"));
  ASSIGN_OR_RETURN(const auto plain_http, reader.optional<bool>("plain_http"));
  RETURN_IF_ERROR(reader.finish());
  if (password && token) {
    return fail_field("token", "give either 'password' or 'token'");
  }
  if (mirror && !mirror->empty() && !is_mirror(*mirror)) {
    return fail_field("mirror",
                      "'mirror' must be a host, optionally with a port and with http:// before it");
  }
  Parsed out;
  out.row.host = std::move(host);
  out.row.username = std::move(username).value_or("");
  out.row.mirror = std::move(mirror).value_or("");
  out.row.plain_http = plain_http.value_or(false);
  std::string secret = password ? std::move(*password) : std::move(token).value_or("");
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < ' '; };
  if (secret.size() > kSecretBytesMax || std::ranges::any_of(secret, is_control) ||
      std::ranges::any_of(out.row.username, is_control)) {
    return fail_field("password", "the credentials are too long or contain control characters");
  }
  out.secret = base::Secret(std::move(secret));
  return out;
}

std::unexpected<base::Error> unknown(const std::string& host) {
  return base::fail(ErrorCode::not_found, "registry '", host, "' is not set");
}

}  // namespace

Result<RegistryMirrors> parse_registry_mirrors(std::string_view text) {
  RegistryMirrors mirrors;
  for (const std::string& word : words_of(text)) {
    const size_t equals = word.find('=');
    const std::string host = word.substr(0, equals);
    if (equals == std::string::npos || !is_host(host) || !is_mirror(word.substr(equals + 1))) {
      return base::fail(ErrorCode::malformed, "'", word,
                        "' must be HOST=MIRROR, both in lower case and optionally with a port, the "
                        "mirror optionally with http:// before it");
    }
    if (!mirrors.emplace(host, word.substr(equals + 1)).second) {
      return base::fail(ErrorCode::malformed, "'", host, "' has two mirrors");
    }
  }
  return mirrors;
}

net::Task<Result<void>> Registries::load() {
  std::vector<std::string> teams;
  for (const auto& [name, team] : context_.teams.all()) {
    teams.push_back(name);
  }
  for (const std::string& name : teams) {
    auto read = [this, &name] { return context_.store.list_registries(name); };
    CO_ASSIGN_OR_RETURN(auto rows, co_await context_.pool.run(std::move(read)));
    ByHost by_host;
    for (store::Registry& row : rows) {
      by_host[row.host] = std::move(row);
    }
    by_team_[name] = std::move(by_host);
  }
  std::erase_if(by_team_, [this](const auto& entry) { return !context_.teams.find(entry.first); });
  co_return Result<void>{};
}

const store::Registry* Registries::find(const std::string& team, const std::string& host) const {
  const auto of_team = by_team_.find(team);
  if (of_team == by_team_.end()) {
    return nullptr;
  }
  const auto found = of_team->second.find(host);
  return found == of_team->second.end() ? nullptr : &found->second;
}

net::Task<Result<RegistryView>> Registries::put(std::string team, std::string host,
                                                std::string body) {
  CO_ASSIGN_OR_RETURN(auto parsed, parse(std::move(host), body));
  store::Registry row = std::move(parsed.row);
  if (!parsed.secret.empty()) {
    row.secret_sealed = context_.secrets.seal(parsed.secret.reveal(), purpose(team, row.host));
  }
  if (by_team_[team].size() >= kRegistriesMax && find(team, row.host) == nullptr) {
    co_return base::fail(ErrorCode::conflict, "more than ", kRegistriesMax, " registries");
  }
  auto write = [this, &team, row] { return context_.store.put_registry(team, row); };
  CO_RETURN_IF_ERROR(co_await context_.pool.run(std::move(write)));
  const RegistryView view = view_of(row);
  by_team_[team][row.host] = std::move(row);
  co_return view;
}

Result<RegistryView> Registries::get(const std::string& team, const std::string& host) const {
  const store::Registry* row = find(team, host);
  if (row == nullptr) {
    return unknown(host);
  }
  return view_of(*row);
}

std::vector<RegistryView> Registries::list(const std::string& team) const {
  std::vector<RegistryView> out;
  if (const auto found = by_team_.find(team); found != by_team_.end()) {
    for (const auto& [host, row] : found->second) {
      out.push_back(view_of(row));
    }
  }
  return out;
}

net::Task<Result<void>> Registries::remove(std::string team, std::string host) {
  if (find(team, host) == nullptr) {
    co_return unknown(host);
  }
  auto write = [this, &team, &host] { return context_.store.delete_registry(team, host); };
  CO_RETURN_IF_ERROR(co_await context_.pool.run(std::move(write)));
  by_team_[team].erase(host);
  co_return Result<void>{};
}

Result<model::RegistryAccess> Registries::access(const std::string& team,
                                                 std::string_view image) const {
  const auto of_team = by_team_.find(team);
  const bool has_some = of_team != by_team_.end() && !of_team->second.empty();
  if ((!has_some && mirrors_.empty()) || model::is_local_image_path(image)) {
    return model::RegistryAccess{};
  }
  ASSIGN_OR_RETURN(const auto reference, model::parse_image_reference(image));
  const auto mirror = mirrors_.find(reference.registry);
  const std::string standard = mirror == mirrors_.end() ? "" : mirror->second;
  const store::Registry* row = find(team, reference.registry);
  if (row == nullptr) {
    return model::RegistryAccess{.username = {}, .password = {}, .mirror = standard};
  }
  model::RegistryAccess access{.username = row->username,
                               .password = {},
                               .mirror = row->mirror.empty() ? standard : row->mirror,
                               .plain_http = row->plain_http};
  if (!row->secret_sealed.empty()) {
    ASSIGN_OR_RETURN(access.password,
                     context_.secrets.unseal(row->secret_sealed, purpose(team, row->host)));
  }
  return access;
}

}  // namespace service
