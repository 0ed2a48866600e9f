// Runs one of the host's programs to its end: only while the node starts (mkfs.btrfs, nft,
// iptables), never for a sandbox. Blocks the caller, at most kProgramSecondsMax; output is bounded.
// A program that is missing is `unavailable`; one that fails is io with what it wrote to stderr.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace node {

// Where a program of the host's is, or empty: /usr/sbin, /usr/bin, /sbin, /bin, /usr/local/...
std::string find_program(std::string_view name);

// Standard output of `arguments` (the program's name first), given `input` as standard input.
base::Result<std::string> run_program(const std::vector<std::string>& arguments,
                                      std::string_view input = {});

}  // namespace node
