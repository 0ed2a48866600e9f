// A shell: a process in namespaces of its own that has done all of a sandbox's start that does not
// depend on the image and waits for the rest. Owned by the node (its pool, then a sandbox); dies
// with its owner's end of the control socket. Never blocks beyond clone3 and two small writes.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/fd.h"
#include "jail/seccomp_filter.h"
#include "jail/shell_plan.h"
#include "jail/step.h"

namespace jail {

// What all shells of a node share. Outlives them.
struct Launcher {
  SeccompFilter filter;
  SeccompFilter builder_filter;
  base::Fd agent;  // sealed memory file of the static agent
  std::vector<std::string> arguments{"sandbox-agent"};
  base::Fd network_namespace;  // the node's own, to go back to
  uint64_t open_files = 0;
  bool reset_oom_score = false;
};
base::Result<Launcher> make_launcher(const std::string& agent_path);

struct ShellOptions {
  uid_t id_base = 0;           // first of the 65,536 host ids
  int network_namespace = -1;  // made ahead, owned by the host's user namespace
  std::span<const base::Fd> cgroup_tasks;
  int v2_folder = -1;
  Profile profile = Profile::sandbox;
};

struct StartOptions {
  std::string hostname;
  bool no_new_privileges = false;
  int root = -1;    // the overlay, detached
  int listen = -1;  // the agent's socket
  int config = -1;
  int oom_counter = -1;  // -1: none
  int spool = -1;        // -1: none
  int state = -1;        // of a builder: its state folder, detached
  struct Mount {
    int fd = -1;  // detached
    std::string target;
  };
  std::vector<Mount> mounts;  // at most kMountsMax
};

class Shell {
 public:
  Shell() = default;
  Shell(Shell&&) = default;
  Shell& operator=(Shell&&) = delete;
  // Unless its process was taken, it is killed and reaped.
  ~Shell();

  static base::Result<Shell> make(const Launcher& launcher, const ShellOptions& options);

  // Lets the second half run. Its end is readable on control(): see outcome().
  base::Result<void> start(const StartOptions& options);
  // What control() said: nothing yet (nullopt), the agent was executed (empty failure), or why
  // not. Call when control() is readable.
  struct Outcome {
    bool executed = false;
    Failure failure;
  };
  [[nodiscard]] std::optional<Outcome> outcome() const;

  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] const base::Fd& process() const { return process_; }
  [[nodiscard]] base::Fd& control() { return control_; }
  [[nodiscard]] const base::Fd& user_namespace() const { return user_namespace_; }
  base::Fd take_process() { return std::move(process_); }

 private:
  pid_t pid_ = 0;
  base::Fd process_;  // pidfd
  base::Fd control_;
  base::Fd user_namespace_;
};

}  // namespace jail
