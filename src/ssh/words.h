// Command lines that are not a shell's business: the old scp protocol's, which the agent serves
// itself. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ssh {

// The arguments of `scp -t DIR` or `scp -f FILE...` as an scp client sends it, without the word
// scp; nullopt for any other command, which a shell is to run. What was quoted has a backslash
// before each character that would be a pattern's (api/agent-protocol.md).
std::optional<std::vector<std::string>> scp_arguments(std::string_view command);

}  // namespace ssh
