// The query of a file request as a value: whose rights, which path, what is asked for. Every
// parameter is checked; what is not documented for the route is refused.
#pragma once

#include <optional>
#include <string>

#include "agent/accounts.h"
#include "agent/agent.h"
#include "wire/http1.h"

namespace agent {

enum class FileRoute { read, write, remove, make_folder, move, change_mode, watch };

struct FileRequest {
  std::string path;  // absolute
  std::string to;    // absolute; of a move
  Identity acting;
  std::optional<mode_t> mode;
  std::optional<Identity> owner;
  bool list = false;
  bool stat = false;
  bool tar = false;
  bool recursive = false;
  bool overwrite = false;
  bool preserve_owner = false;
  bool one_file_system = false;  // of a tar: nothing below what is mounted in the folder
  int depth = 1;
};

Result<FileRequest> parse_file_request(Agent& agent, const wire::http::Request& request,
                                       FileRoute route);
// "0755" and the like: one to four octal digits.
std::optional<mode_t> parse_mode(std::string_view text);

// The API's error for a failed call on a path of the sandbox.
base::Error file_error(int errno_value, std::string_view path);

}  // namespace agent
