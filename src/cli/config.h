// Which gateway the CLI talks to, and as whom: flags over environment over the config file. The
// file holds a token, so it is written 0600 and not read when others could. Pure but for that file.
#pragma once

#include <string>

#include "base/error.h"
#include "base/secret.h"

namespace cli {

using base::Result;

inline constexpr std::string_view kDefaultUrl = "http://127.0.0.1:8080";

// What of the process environment matters here; "" when unset.
struct Environment {
  std::string config_file;  // SANDBOX_GATEWAY_CONFIG
  std::string config_home;  // XDG_CONFIG_HOME
  std::string home;         // HOME
  std::string url;          // SANDBOX_GATEWAY_URL
  std::string token;        // SANDBOX_GATEWAY_TOKEN
  std::string ca_file;      // SANDBOX_GATEWAY_CA_FILE
};
Environment read_environment();

struct Settings {
  std::string url;
  base::Secret token;   // empty: none is known for that URL
  std::string ca_file;  // of that URL; "": the system's authorities
};

// The command line's; each "" when not given.
struct ConnectionFlags {
  std::string url;
  std::string token_file;  // "-" is standard input
  std::string ca_file;
};

// <config_file>, else <config_home>/sandbox/config.json; invalid_field when neither folder is set.
Result<std::string> config_path(const Environment& environment);
// The file's token and authorities are for the file's URL only and go nowhere else.
Result<Settings> load_settings(const Environment& environment, const ConnectionFlags& flags);
Result<void> save_settings(const Environment& environment, const Settings& settings);

// One line without blanks around it; invalid_field when it is not a bearer token's characters.
Result<base::Secret> parse_token(std::string_view text);
// Of a file, or of standard input for "-".
Result<base::Secret> read_token_file(const std::string& path);

}  // namespace cli
