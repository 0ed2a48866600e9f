// The programs that the agent's binary is besides the agent itself, so that they work in any image
// (api/agent-protocol.md "Helpers"): each runs as a command like any other.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace agent {

inline constexpr char kSftpProgram[] = "sftp-server";
inline constexpr char kScpProgram[] = "scp";

// The exit status of the helper that these words (without the binary's own name) name, on standard
// input and output; nullopt where they name none.
std::optional<int> run_helper(const std::vector<std::string>& words);

}  // namespace agent
