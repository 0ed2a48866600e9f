#include "node/program.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>

#include "base/fd.h"
#include "base/sys.h"

namespace node {

using base::ErrorCode;
using base::fail;
using base::fail_errno;
using base::Result;

namespace {

// mkfs.btrfs of the largest pool takes well under a second; a hung disk must not hang the node.
constexpr int kProgramSecondsMax = 60;
// nft lists of a host with many rules; anything longer is not ours to read.
constexpr size_t kProgramOutputBytesMax = 4 << 20;
constexpr size_t kErrorTextBytesMax = 500;

constexpr std::array<std::string_view, 6> kProgramFolders = {
    "/usr/sbin", "/usr/bin", "/sbin", "/bin", "/usr/local/sbin", "/usr/local/bin"};

struct Running {
  pid_t pid = -1;
  base::Fd output;
  base::Fd errors;
};

// The input is at most a firewall's text: it goes through a sealed file, so writing cannot block.
Result<Running> start(const std::string& path, const std::vector<std::string>& arguments,
                      std::string_view input) {
  ASSIGN_OR_RETURN(auto source, base::sys::make_sealed_memory("input", input));
  ASSIGN_OR_RETURN(auto output, base::sys::make_pipe());
  ASSIGN_OR_RETURN(auto errors, base::sys::make_pipe());
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, source.get(), STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, output.second.get(), STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, errors.second.get(), STDERR_FILENO);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  sigset_t none;
  ::sigemptyset(&none);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  std::vector<char*> argv;
  for (const auto& argument : arguments) {
    argv.push_back(const_cast<char*>(argument.c_str()));  // NOLINT: the interface's type
  }
  argv.push_back(nullptr);
  std::string search = "PATH=/usr/sbin:/usr/bin:/sbin:/bin";
  std::string locale = "LC_ALL=C";
  std::array<char*, 3> environment = {search.data(), locale.data(), nullptr};
  Running running;
  const int code = ::posix_spawn(&running.pid, path.c_str(), &actions, &attributes, argv.data(),
                                 environment.data());
  ::posix_spawn_file_actions_destroy(&actions);
  ::posix_spawnattr_destroy(&attributes);
  if (code != 0) {
    return fail_errno(code, "start ", path);
  }
  running.output = std::move(output.first);
  running.errors = std::move(errors.first);
  return running;
}

// Reads what is there; false at the end of the stream.
bool drain(const base::Fd& from, std::string& into) {
  std::array<char, 16384> buffer;
  const auto count = ::read(from.get(), buffer.data(), buffer.size());
  if (count < 0) {
    return errno == EINTR;
  }
  if (into.size() < kProgramOutputBytesMax) {
    into.append(buffer.data(), static_cast<size_t>(count));
  }
  return count > 0;
}

Result<void> read_both(const Running& running, std::string& output, std::string& errors) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(kProgramSecondsMax);
  std::array<pollfd, 2> watched = {pollfd{running.output.get(), POLLIN, 0},
                                   pollfd{running.errors.get(), POLLIN, 0}};
  while (watched[0].fd >= 0 || watched[1].fd >= 0) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) {
      return fail(ErrorCode::deadline_exceeded, "no end within ", kProgramSecondsMax, " s");
    }
    if (::poll(watched.data(), watched.size(), static_cast<int>(left.count())) < 0 &&
        errno != EINTR) {
      return fail_errno(errno, "poll");
    }
    if (watched[0].revents != 0 && !drain(running.output, output)) {
      watched[0].fd = -1;
    }
    if (watched[1].revents != 0 && !drain(running.errors, errors)) {
      watched[1].fd = -1;
    }
  }
  return {};
}

}  // namespace

std::string find_program(std::string_view name) {
  for (const auto folder : kProgramFolders) {
    auto path = base::cat(folder, '/', name);
    if (::access(path.c_str(), X_OK) == 0) {
      return path;
    }
  }
  return {};
}

Result<std::string> run_program(const std::vector<std::string>& arguments, std::string_view input) {
  const auto path = find_program(arguments.front());
  if (path.empty()) {
    return fail(ErrorCode::unavailable, "the host has no program ", arguments.front());
  }
  ASSIGN_OR_RETURN(auto running, start(path, arguments, input));
  std::string output;
  std::string errors;
  auto done = read_both(running, output, errors);
  if (!done) {
    ::kill(running.pid, SIGKILL);
  }
  int status = 0;
  while (::waitpid(running.pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (!done) {
    return std::unexpected(base::with_context(std::move(done), path).error());
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    return fail(ErrorCode::io, path,
                " failed: ", base::trim(std::string_view(errors).substr(0, kErrorTextBytesMax)));
  }
  return output;
}

}  // namespace node
