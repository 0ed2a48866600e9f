// image build-default: runs the recipe of the default image (images/agent/build.py) on this machine
// and imports what it made. The recipe keeps its archives in the user's cache folder.
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <vector>

#include "base/sys.h"
#include "cli/context.h"

extern char** environ;

namespace cli {
namespace {

using base::ErrorCode;
using base::fail;

// Where the recipe lies beside this program: installed, and in a build of the sources.
constexpr std::array kPlaces{"/../share/sandbox-gateway/images/agent/build.py",
                             "/../../images/agent/build.py"};
constexpr size_t kPathBytesMax = 4096;
// Debian's own, which the recipe is written for.
constexpr const char* kPython = "/usr/bin/python3";

Result<std::string> own_program() {
  std::array<char, kPathBytesMax> path{};
  const ssize_t size = ::readlink("/proc/self/exe", path.data(), path.size());
  if (size <= 0) {
    return base::fail_errno(errno, "find this program");
  }
  return std::string(path.data(), static_cast<size_t>(size));
}

Result<std::string> find_recipe(const std::string& given, const std::string& program) {
  if (!given.empty()) {
    return given;
  }
  const std::string folder = program.substr(0, program.rfind('/'));
  for (const char* place : kPlaces) {
    std::string path = folder + place;
    if (::access(path.c_str(), R_OK) == 0) {
      return path;
    }
  }
  return fail(ErrorCode::not_found, "the recipe images/agent/build.py is not beside ", program,
              ": name it with --recipe");
}

// The recipe as a child whose standard output is read; its progress goes to our standard error.
class RecipeRun {
 public:
  RecipeRun() = default;
  RecipeRun(const RecipeRun&) = delete;
  RecipeRun& operator=(const RecipeRun&) = delete;
  ~RecipeRun() {
    if (pid_ > 0) {
      ::kill(pid_, SIGTERM);
      wait();
    }
  }

  Result<void> start(std::vector<std::string> arguments) {
    ASSIGN_OR_RETURN(auto pipe, base::sys::make_pipe());
    std::vector<char*> argv;
    argv.reserve(arguments.size() + 1);
    for (std::string& argument : arguments) {
      argv.push_back(argument.data());
    }
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, pipe.second.get(), STDOUT_FILENO);
    // This program takes its signals by descriptor; the child is to take them as they come.
    posix_spawnattr_t attributes;
    ::posix_spawnattr_init(&attributes);
    sigset_t none;
    ::sigemptyset(&none);
    sigset_t pipes;
    ::sigemptyset(&pipes);
    ::sigaddset(&pipes, SIGPIPE);
    ::posix_spawnattr_setsigmask(&attributes, &none);
    ::posix_spawnattr_setsigdefault(&attributes, &pipes);
    ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    const int failed =
        ::posix_spawn(&pid_, argv.front(), &actions, &attributes, argv.data(), environ);
    ::posix_spawn_file_actions_destroy(&actions);
    ::posix_spawnattr_destroy(&attributes);
    if (failed != 0) {
      pid_ = 0;
      return base::fail_errno(failed, "start ", arguments.front());
    }
    output_ = std::move(pipe.first);
    return {};
  }

  // What it wrote until it ended: one line.
  Result<std::string> finish(Interrupt& interrupt) {
    std::string text;
    std::array<char, kPathBytesMax> buffer{};
    for (;;) {
      RETURN_IF_ERROR(interrupt.wait_for(output_.get(), POLLIN));
      const ssize_t size = ::read(output_.get(), buffer.data(), buffer.size());
      if (size < 0 && errno == EINTR) {
        continue;
      }
      if (size <= 0 || text.size() > kPathBytesMax) {
        break;
      }
      text.append(buffer.data(), static_cast<size_t>(size));
    }
    const int status = wait();
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
      return fail(ErrorCode::unavailable, "the recipe failed; its own words are above");
    }
    while (text.ends_with('\n')) {
      text.pop_back();
    }
    return text;
  }

 private:
  int wait() {
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = 0;
    return status;
  }

  pid_t pid_ = 0;
  base::Fd output_;
};

}  // namespace

Result<int> image_build_default(Context& context, const ImageBuildDefaultOptions& options) {
  ASSIGN_OR_RETURN(const std::string program, own_program());
  ASSIGN_OR_RETURN(const std::string recipe, find_recipe(options.recipe, program));
  std::string cache = options.cache;
  if (cache.empty()) {
    if (context.environment.home.empty()) {
      return base::fail_field("--cache", "HOME is not set: name a folder with --cache");
    }
    cache = context.environment.home + "/.cache/sandbox-gateway/images";
  }
  std::vector<std::string> arguments{kPython, "-B", recipe, cache, "--cli", program};
  for (const auto& [given, flag] :
       {std::pair(options.small, "--small"), std::pair(options.rebuild, "--rebuild")}) {
    if (given) {
      arguments.emplace_back(flag);
    }
  }
  if (!options.base.empty()) {
    arguments.insert(arguments.end(), {"--base", options.base});
  }
  RecipeRun run;
  RETURN_IF_ERROR(run.start(std::move(arguments)));
  ASSIGN_OR_RETURN(std::string archive, run.finish(context.interrupt));
  return image_import(context, {.file = std::move(archive), .name = options.name});
}

}  // namespace cli
