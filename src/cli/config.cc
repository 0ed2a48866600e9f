#include "cli/config.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/sys.h"
#include "cli/http_client.h"
#include "wire/json.h"

namespace cli {

using base::ErrorCode;
using base::fail;

namespace {

// A URL and a token with their JSON; anything longer is not our file.
constexpr size_t kConfigBytesMax = size_t{64} * 1024;

std::string variable(const char* name) {
  const char* value = ::getenv(name);
  return value == nullptr ? "" : value;
}

// No file: empty settings.
Result<Settings> read_config(const std::string& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) {
      return Settings{};
    }
    return base::fail_errno(errno, "look at ", path);
  }
  if ((status.st_mode & 0077U) != 0) {
    return fail(ErrorCode::permission_denied, path,
                " holds a token and others can read it: run chmod 600 on it");
  }
  ASSIGN_OR_RETURN(const auto text, base::sys::read_file(path, kConfigBytesMax));
  ASSIGN_OR_RETURN(const auto object, base::with_context(wire::json::parse_object(text), path));
  wire::json::Reader reader(object);
  ASSIGN_OR_RETURN(const auto url, reader.optional<std::string>("url"));
  ASSIGN_OR_RETURN(const auto token, reader.optional<std::string>("token"));
  Settings settings;
  ASSIGN_OR_RETURN(const auto ca_file, reader.optional<std::string>("ca_file"));
  settings.url = url.value_or("");
  settings.ca_file = ca_file.value_or("");
  if (token && !token->empty()) {
    ASSIGN_OR_RETURN(settings.token, base::with_context(parse_token(*token), path));
  }
  return settings;
}

}  // namespace

Environment read_environment() {
  return {.config_file = variable("SANDBOX_GATEWAY_CONFIG"),
          .config_home = variable("XDG_CONFIG_HOME"),
          .home = variable("HOME"),
          .url = variable("SANDBOX_GATEWAY_URL"),
          .token = variable("SANDBOX_GATEWAY_TOKEN"),
          .ca_file = variable("SANDBOX_GATEWAY_CA_FILE")};
}

Result<std::string> config_path(const Environment& environment) {
  if (environment.config_file.starts_with('/')) {
    return environment.config_file;
  }
  if (environment.config_home.starts_with('/')) {
    return environment.config_home + "/sandbox/config.json";
  }
  if (environment.home.empty()) {
    return base::fail_field("config", "neither XDG_CONFIG_HOME nor HOME is set");
  }
  return environment.home + "/.config/sandbox/config.json";
}

Result<Settings> load_settings(const Environment& environment, const ConnectionFlags& flags) {
  Settings settings;
  Settings file;
  const bool whole_without_file = (!flags.url.empty() || !environment.url.empty()) &&
                                  (!flags.token_file.empty() || !environment.token.empty());
  if (!whole_without_file) {
    if (const auto path = config_path(environment)) {
      ASSIGN_OR_RETURN(file, read_config(*path));
    }
  }
  std::string url = !flags.url.empty() ? flags.url : environment.url;
  if (url.empty()) {
    url = !file.url.empty() ? file.url : std::string(kDefaultUrl);
  }
  ASSIGN_OR_RETURN(settings.url, parse_gateway_url(url));
  settings.ca_file = !flags.ca_file.empty()         ? flags.ca_file
                     : !environment.ca_file.empty() ? environment.ca_file
                     : settings.url == file.url     ? file.ca_file
                                                    : "";
  if (!flags.token_file.empty()) {
    ASSIGN_OR_RETURN(settings.token, read_token_file(flags.token_file));
  } else if (!environment.token.empty()) {
    ASSIGN_OR_RETURN(settings.token,
                     base::with_context(parse_token(environment.token), "SANDBOX_GATEWAY_TOKEN"));
  } else if (settings.url == file.url) {
    settings.token = std::move(file.token);
  }
  return settings;
}

Result<void> save_settings(const Environment& environment, const Settings& settings) {
  ASSIGN_OR_RETURN(const auto path, config_path(environment));
  const std::string folder = path.substr(0, path.rfind('/'));
  RETURN_IF_ERROR(base::sys::make_folders(folder, 0700));
  wire::json::Object object;
  object["url"] = settings.url;
  if (!settings.ca_file.empty()) {
    object["ca_file"] = settings.ca_file;
  }
  object["token"] = settings.token.reveal();  // the file is where the token is kept
  return base::sys::replace_file(path, wire::json::serialize(object) + "\n", 0600);
}

Result<base::Secret> parse_token(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' ')) {
    text.remove_suffix(1);
  }
  text = base::trim(text);
  if (text.empty() || !std::ranges::all_of(text, [](char c) { return c > ' ' && c < 0x7f; })) {
    return base::fail_field("token", "the token must be one word of printable ASCII");
  }
  return base::Secret(std::string(text));
}

Result<base::Secret> read_token_file(const std::string& path) {
  if (path == "-") {
    ASSIGN_OR_RETURN(const auto text, base::sys::read_all(STDIN_FILENO, kConfigBytesMax));
    return base::with_context(parse_token(text), "standard input");
  }
  ASSIGN_OR_RETURN(const auto text, base::sys::read_file(path, kConfigBytesMax));
  return base::with_context(parse_token(text), path);
}

}  // namespace cli
