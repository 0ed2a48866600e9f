#include "service/key_command.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>

#include "base/sys.h"

namespace service {
namespace {

using base::ErrorCode;
using base::Result;
using SteadyClock = std::chrono::steady_clock;

// Eight keys a line each, with room.
constexpr size_t kOutputBytesMax = 4096;
// Between two looks at whether it has ended.
constexpr base::Milliseconds kLook{10};

struct Command {
  pid_t pid = 0;
  base::Fd output;
};

// In a process group of its own, so that all of it can be ended.
Result<Command> start(const std::vector<std::string>& words) {
  ASSIGN_OR_RETURN(auto pipe, base::sys::make_pipe());
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, pipe.second.get(), STDOUT_FILENO);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  std::vector<char*> argv;
  for (const std::string& word : words) {
    argv.push_back(const_cast<char*>(word.c_str()));  // NOLINT: the interface's type
  }
  argv.push_back(nullptr);
  Command command;
  const int failed = ::posix_spawn(&command.pid, words.front().c_str(), &actions, &attributes,
                                   argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::posix_spawnattr_destroy(&attributes);
  if (failed != 0) {
    return base::fail(ErrorCode::unavailable, words.front(), ": ", ::strerrordesc_np(failed));
  }
  command.output = std::move(pipe.first);
  return command;
}

std::unexpected<base::Error> no_end(base::Milliseconds patience) {
  return base::fail(ErrorCode::unavailable, "it has no end within ", patience.count(), " ms");
}

Result<base::Secret> read_output(int output, SteadyClock::time_point end,
                                 base::Milliseconds patience) {
  std::string text;
  text.reserve(kOutputBytesMax + 1);  // never moved, so that no copies of keys are left behind
  std::array<char, kOutputBytesMax + 1> buffer{};
  Result<void> done;
  for (;;) {
    const auto left =
        std::chrono::duration_cast<base::Milliseconds>(end - SteadyClock::now()).count();
    pollfd watched{output, POLLIN, 0};
    const int ready = left <= 0 ? 0 : ::poll(&watched, 1, static_cast<int>(left));
    if (ready == 0) {
      done = no_end(patience);
      break;
    }
    const ssize_t size =
        ready < 0 ? -1 : ::read(output, buffer.data(), buffer.size() - text.size());
    if (size == 0) {
      break;
    }
    if (size < 0 && errno == EINTR) {
      continue;
    }
    if (size > 0) {
      text.append(buffer.data(), static_cast<size_t>(size));
    }
    if (size < 0 || text.size() > kOutputBytesMax) {
      done = base::fail(ErrorCode::unavailable, "it prints more than ", kOutputBytesMax, " bytes");
      break;
    }
  }
  ::explicit_bzero(buffer.data(), buffer.size());
  base::Secret secret(std::move(text));
  RETURN_IF_ERROR(done);
  return secret;
}

// It has closed its output; its end is waited for as long as for its keys.
Result<void> wait_end(pid_t pid, SteadyClock::time_point end, base::Milliseconds patience) {
  int status = 0;
  for (;;) {
    const pid_t ended = ::waitpid(pid, &status, WNOHANG);
    if (ended == pid) {
      break;
    }
    if (SteadyClock::now() >= end) {
      return no_end(patience);
    }
    ::poll(nullptr, 0, static_cast<int>(kLook.count()));
  }
  if (WIFSIGNALED(status)) {
    return base::fail(ErrorCode::unavailable, "it died of signal ", WTERMSIG(status));
  }
  if (WEXITSTATUS(status) != 0) {
    return base::fail(ErrorCode::unavailable, "it ended with exit code ", WEXITSTATUS(status));
  }
  return {};
}

}  // namespace

Result<void> check_key_command(const std::vector<std::string>& words) {
  if (words.empty() || words.front().front() != '/') {
    return base::fail(ErrorCode::invalid_field, "takes a command by its absolute path");
  }
  if (::access(words.front().c_str(), X_OK) != 0) {
    return base::fail(ErrorCode::invalid_field, words.front(), ": ", ::strerrordesc_np(errno));
  }
  return {};
}

Result<KeyRing> run_key_command(const std::vector<std::string>& words,
                                base::Milliseconds patience) {
  RETURN_IF_ERROR(check_key_command(words));
  const auto end = SteadyClock::now() + patience;
  ASSIGN_OR_RETURN(const Command command, start(words));
  const auto output = read_output(command.output.get(), end, patience);
  const auto ended =
      output ? wait_end(command.pid, end, patience) : std::unexpected(output.error());
  if (!ended) {
    ::kill(-command.pid, SIGKILL);
    // Where it has ended before, this finds nobody.
    ::waitpid(command.pid, nullptr, 0);
    return std::unexpected(ended.error());
  }
  auto keys = parse_key_lines(output->reveal());
  if (!keys) {
    return base::fail(ErrorCode::unavailable, "what it prints: ", keys.error().message);
  }
  return keys;
}

}  // namespace service
