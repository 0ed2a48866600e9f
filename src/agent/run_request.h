// The bodies of POST /run and POST /stream, and the first line of POST /exec, as values that
// cannot be wrong: strictly parsed, every field checked.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "agent/command_request.h"

namespace agent {

enum class OutputEncoding { utf8, base64 };

struct RunRequest : CommandRequest {
  std::string input;
  OutputEncoding encoding = OutputEncoding::utf8;
};

Result<RunRequest> parse_run_request(std::string_view body);
// "utf8", "base64", or nothing for the former; `name` is the field's.
Result<OutputEncoding> parse_encoding(std::string_view name,
                                      const std::optional<std::string>& text);
// Without `stdin` and `encoding`: both ways are bytes.
Result<CommandRequest> parse_exec_request(std::string_view line);

}  // namespace agent
