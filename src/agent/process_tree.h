// All processes that came from one command, so that they can be ended together, daemons that
// called setsid included. With a cgroup v2 folder each command gets a child cgroup; without one
// the processes are found in /proc by descent, session and a marker in their environment.
// Owned by the agent (the pool) and the run (its tree); loop thread only.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "base/fd.h"

namespace agent {

class ProcessTrees;

// An open file, whoever has it open.
struct FileIdentity {
  dev_t device = 0;
  ino_t inode = 0;
  bool operator==(const FileIdentity&) const = default;
};
FileIdentity identity_of(int fd);

class ProcessTree {
 public:
  ~ProcessTree();
  ProcessTree(const ProcessTree&) = delete;
  ProcessTree& operator=(const ProcessTree&) = delete;

  // For clone3(CLONE_INTO_CGROUP); below 0 without cgroups.
  [[nodiscard]] int cgroup() const { return folder_.get(); }
  // "NAME=value" to add to the command's environment; empty with cgroups.
  [[nodiscard]] const std::string& marker() const { return marker_; }
  void set_leader(pid_t pid) { leader_ = pid; }
  // Sends the signal to every process of the tree.
  void signal(int number);
  [[nodiscard]] bool empty() const;
  // Those that have one of these as a standard stream, or that cannot be looked at.
  [[nodiscard]] std::vector<pid_t> users_of(const std::vector<FileIdentity>& files) const;
  // The kernel refused the cgroup: go on without it.
  void abandon_cgroup();

 private:
  friend class ProcessTrees;
  explicit ProcessTree(ProcessTrees& owner) : owner_(owner) {}
  [[nodiscard]] std::vector<pid_t> find() const;

  ProcessTrees& owner_;
  std::string name_;
  base::Fd folder_;
  base::Fd events_;  // cgroup.events, kept open
  std::string marker_;
  pid_t leader_ = 0;
  bool killed_ = false;  // cgroup.kill was written
};

class ProcessTrees {
 public:
  // `folder`: the agent's fd 5, or invalid.
  explicit ProcessTrees(base::Fd folder) : folder_(std::move(folder)) {}
  std::unique_ptr<ProcessTree> make();
  // Takes back the cgroups whose last background process has ended. Called when orphans ended.
  void sweep();

 private:
  friend class ProcessTree;
  struct Group {
    std::string name;
    base::Fd folder;
    base::Fd events;
    bool killed = false;  // the kernel kills whatever is cloned into such a group: used once
  };
  static bool populated(const base::Fd& events);
  bool make_group(Group& group);
  void give_back(Group group);

  base::Fd folder_;
  uint64_t last_name_ = 0;
  std::vector<Group> idle_;       // empty cgroups to be used again: cheaper than rmdir + mkdir
  std::vector<Group> lingering_;  // their commands ended, background processes live on
};

}  // namespace agent
