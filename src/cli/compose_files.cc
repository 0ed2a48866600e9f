#include "cli/compose_files.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <set>

#include "base/sys.h"

namespace cli {

using base::ErrorCode;
using base::fail;
using wire::json::Array;
using wire::json::Object;
using wire::json::Value;

namespace {

constexpr size_t kFileBytesMax = size_t{1} << 20;
constexpr int kRoundsMax = 10;
constexpr const char* kProfiles = "COMPOSE_PROFILES";

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// Every name behind a `$` or `${`: more may be named than is used, never less.
std::set<std::string> names_in(std::string_view text) {
  std::set<std::string> names;
  for (size_t at = text.find('$'); at != std::string_view::npos; at = text.find('$', at)) {
    ++at;
    at += at < text.size() && text[at] == '{' ? 1 : 0;
    const size_t begin = at;
    while (at < text.size() && is_name_char(text[at])) {
      ++at;
    }
    names.emplace(text.substr(begin, at - begin));
  }
  names.erase("");
  return names;
}

// What stands behind "environment:": the variable of a config or a secret.
std::set<std::string> named_as_values(std::string_view text) {
  constexpr std::string_view kKey = "environment:";
  std::set<std::string> names;
  for (size_t at = text.find(kKey); at != std::string_view::npos; at = text.find(kKey, at)) {
    at = std::min(text.find_first_not_of(" \t\"'", at + kKey.size()), text.size());
    const size_t begin = at;
    while (at < text.size() && is_name_char(text[at])) {
      ++at;
    }
    names.emplace(text.substr(begin, at - begin));
  }
  names.erase("");
  return names;
}

// Of this machine's variables those that the files name; no more leaves it.
Object variables_of(const std::set<std::string>& names) {
  Object variables;
  for (const std::string& name : names) {
    if (const char* const value = ::getenv(name.c_str())) {
      variables[name] = value;
    }
  }
  return variables;
}

bool is_file(const std::string& path) {
  struct stat status{};
  return ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
}

// As --env-file names them, else the `.env` beside the first file.
Result<std::string> read_dotenv(const CreateOptions& options, const std::string& folder) {
  std::string text;
  std::vector<std::string> paths = options.env_files;
  if (paths.empty() && is_file(folder + "/.env")) {
    paths.push_back(folder + "/.env");
  }
  for (const std::string& path : paths) {
    ASSIGN_OR_RETURN(const std::string one, base::sys::read_file(path, kFileBytesMax));
    text += one + "\n";
  }
  return text;
}

std::string beside(const std::string& folder, const std::string& path) {
  return path.starts_with('/') ? path : base::cat(folder, "/", path);
}

Array list_of(const Object& object, std::string_view name) {
  const Value* const value = object.if_contains(name);
  return value != nullptr && value->is_array() ? value->get_array() : Array{};
}

Result<Object> read_env_files(const Object& needs, const std::string& folder) {
  Object texts;
  for (const Value& need : list_of(needs, "env_files")) {
    if (!need.is_object()) {
      continue;
    }
    const std::string path = field_text(need.get_object(), "path");
    const std::string here = beside(folder, path);
    const auto* required = need.get_object().if_contains("required");
    if (required != nullptr && required->is_bool() && !required->get_bool() && !is_file(here)) {
      continue;
    }
    ASSIGN_OR_RETURN(texts[path], base::sys::read_file(here, kFileBytesMax));
  }
  return texts;
}

Result<Object> make_builds(Context& context, const CreateOptions& options, const Object& needs,
                           const std::string& folder) {
  Object ids;
  for (const Value& need : list_of(needs, "builds")) {
    if (!need.is_object()) {
      continue;
    }
    const Object& build = need.get_object();
    const std::string service = field_text(build, "service");
    BuildOptions wanted;
    wanted.folder = beside(folder, field_text(build, "context"));
    wanted.dockerfile = field_text(build, "dockerfile");
    wanted.target = field_text(build, "target");
    wanted.dockerfile_text = field_text(build, "dockerfile_inline");
    for (const Value& secret : list_of(build, "secrets")) {
      if (secret.is_object()) {
        const std::string file = field_text(secret.get_object(), "file");
        wanted.secrets.push_back(base::cat(
            "id=", field_text(secret.get_object(), "id"), file.empty() ? ",env=" : ",src=",
            file.empty() ? field_text(secret.get_object(), "environment") : beside(folder, file)));
      }
    }
    wanted.team = options.team;
    const Value* const arguments = build.if_contains("args");
    if (arguments != nullptr && arguments->is_object()) {
      for (const auto& [name, value] : arguments->get_object()) {
        const std::string_view text = value.is_string() ? std::string_view(value.get_string()) : "";
        wanted.arguments.push_back(base::cat(std::string_view(name), "=", text));
      }
    }
    context.console.note("building " + service);
    ASSIGN_OR_RETURN(const Object built,
                     base::with_context(finish_build(context, wanted), service));
    ids[service] = field_text(built, "id");
  }
  return ids;
}

}  // namespace

Result<Object> compose_request(Context& context, const CreateOptions& options) {
  const std::string parent = std::filesystem::path(options.compose.front()).parent_path();
  const std::string folder = parent.empty() ? "." : parent;
  std::set<std::string> names{kProfiles};
  Array files;
  for (const std::string& path : options.compose) {
    ASSIGN_OR_RETURN(const std::string text, base::sys::read_file(path, kFileBytesMax));
    names.merge(names_in(text));
    names.merge(named_as_values(text));
    files.emplace_back(text);
  }
  Object request{{"files", std::move(files)}, {"env", variables_of(names)}};
  ASSIGN_OR_RETURN(const std::string dotenv, read_dotenv(options, folder));
  if (!dotenv.empty()) {
    request["dotenv"] = dotenv;
  }
  // Files that services extend may need others.
  for (int round = 0; round < kRoundsMax; ++round) {
    const HttpRequest check{.method = "POST",
                            .target = "/compose/check",
                            .headers = {{"Content-Type", "application/json"}},
                            .body = wire::json::serialize(request)};
    ASSIGN_OR_RETURN(const Value needs, context.api.call_json(check, Repeat::yes));
    if (!needs.is_object()) {
      return fail(ErrorCode::internal, "the answer to /compose/check is not an object");
    }
    ASSIGN_OR_RETURN(Object texts, read_env_files(needs.get_object(), folder));
    Object known;
    if (const Value* const before = request.if_contains("env_files")) {
      known = before->get_object();
    }
    const size_t count = known.size();
    known.insert(texts.begin(), texts.end());
    const bool is_whole = known.size() == count;
    request["env_files"] = std::move(known);
    if (is_whole) {
      ASSIGN_OR_RETURN(request["builds"],
                       make_builds(context, options, needs.get_object(), folder));
      return request;
    }
  }
  return fail(ErrorCode::compose_invalid,
              "the compose files need files that need files, more than ", kRoundsMax, " deep");
}

}  // namespace cli
