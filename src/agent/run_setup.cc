#include "agent/run_setup.h"

#include <errno.h>
#include <sys/mman.h>

#include "base/sys.h"

namespace agent {
namespace {

// The kernel's MAX_ARG_STRLEN with the closing NUL; longer scripts go by descriptor.
constexpr size_t kArgumentBytesMax = size_t{128} * 1024;
constexpr std::string_view kDefaultPath =
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

Environment merge_environment(const Agent& agent, const CommandRequest& request,
                              const Identity& identity) {
  Environment merged = request.environment;
  merged.insert(agent.config.environment.begin(), agent.config.environment.end());
  merged.insert(agent.variables.begin(), agent.variables.end());
  merged.try_emplace("PATH", kDefaultPath);
  merged.try_emplace("HOME", identity.home);
  return merged;
}

// The script as a memory file that a shell reads with `.`: $0, the parameters and standard input
// are as with `sh -c`. Its first words close the descriptor, so the script's children do not have
// it; they are on the first line so that line numbers stay right.
Result<base::Fd> make_script(const std::string& command) {
  base::Fd file(::memfd_create("command", MFD_CLOEXEC));
  if (!file) {
    return base::fail_errno(errno, "memory file for the command");
  }
  RETURN_IF_ERROR(base::sys::write_all(file.get(), base::cat("exec ", kScriptFd, "<&-; ")));
  RETURN_IF_ERROR(base::sys::write_all(file.get(), command));
  return file;
}

}  // namespace

std::vector<std::string> program_candidates(std::string_view name, std::string_view search_path) {
  if (name.empty()) {
    return {};
  }
  if (name.find('/') != std::string_view::npos) {
    return {std::string(name)};
  }
  std::vector<std::string> paths;
  for (const std::string_view folder : base::split(search_path, ':')) {
    paths.push_back(base::cat(folder.empty() ? std::string_view(".") : folder, "/", name));
  }
  return paths;
}

Result<CommandSetup> prepare_command(Agent& agent, const CommandRequest& request) {
  CommandSetup setup;
  ASSIGN_OR_RETURN(setup.spawn.identity,
                   agent.accounts.find(request.user.value_or(agent.config.user)));
  const Environment environment = merge_environment(agent, request, setup.spawn.identity);
  const std::string& search_path = environment.at("PATH");
  if (request.is_helper) {
    setup.spawn.argv = request.argv;
    setup.spawn.argv.insert(setup.spawn.argv.begin(), "sandbox-agent");
    setup.spawn.program = agent.program.get();
  } else if (!request.command) {
    setup.spawn.argv = request.argv;
    setup.spawn.candidates = program_candidates(
        request.program.empty() ? request.argv.front() : request.program, search_path);
  } else {
    setup.spawn.argv = {"sh", "-c", *request.command};
    setup.spawn.candidates = program_candidates("sh", base::cat("/bin:", search_path));
    if (request.command->size() >= kArgumentBytesMax) {
      ASSIGN_OR_RETURN(setup.script, make_script(*request.command));
      setup.spawn.argv.back() = base::cat(". /proc/self/fd/", kScriptFd);
      setup.spawn.script = setup.script.get();
    }
  }
  setup.spawn.cwd = from_workdir(agent.config, request.cwd);
  setup.spawn.no_new_privileges = agent.config.no_new_privileges;
  for (const auto& [name, value] : environment) {
    setup.spawn.environment.push_back(base::cat(name, "=", value));
  }
  setup.tree = agent.trees.make();
  setup.spawn.cgroup = setup.tree->cgroup();
  if (!setup.tree->marker().empty()) {
    setup.spawn.environment.push_back(setup.tree->marker());
  }
  return setup;
}

}  // namespace agent
