#include "agent/own_programs.h"

#include <stdlib.h>
#include <unistd.h>

#include "agent/path_pattern.h"
#include "agent/scp_receive.h"
#include "agent/scp_send.h"
#include "agent/sftp_server.h"
#include "base/sys.h"

namespace agent {
namespace {

constexpr int kWrongWords = 2;

int run_scp(const std::vector<std::string>& words) {
  const auto options = scp::parse_options(words);
  scp::Peer peer(STDIN_FILENO, STDOUT_FILENO);
  if (!options) {
    peer.complain(options.error().message);
    return kWrongWords;
  }
  const char* home = ::getenv("HOME");
  std::vector<std::string> paths;
  for (const std::string& pattern : options->patterns) {
    for (std::string& path : expand_pattern(pattern, home == nullptr ? "/" : home)) {
      paths.push_back(std::move(path));
    }
  }
  if (!options->to) {
    scp::send(peer, *options, paths);
  } else if (paths.size() == 1) {
    scp::receive(peer, *options, paths.front().empty() ? "." : paths.front());
  } else {
    peer.complain(base::cat(options->patterns.front(), ": ambiguous target"));
  }
  return peer.errors() == 0 ? 0 : 1;
}

}  // namespace

std::optional<int> run_helper(const std::vector<std::string>& words) {
  if (words.empty()) {
    return std::nullopt;
  }
  if (words.front() == kSftpProgram && words.size() == 1) {
    return sftp::Server(STDIN_FILENO, STDOUT_FILENO).serve();
  }
  if (words.front() == kScpProgram) {
    return run_scp({words.begin() + 1, words.end()});
  }
  return std::nullopt;
}

}  // namespace agent
