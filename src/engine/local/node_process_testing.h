// NodeProcess: a real sandbox-node with a state folder, name prefix, subnet and id range of its
// own, for tests. Needs root, busybox (static) and the programs sandbox-node, sandbox-agent and
// sandbox-image in the folder of the test program or in SANDBOX_TEST_PROGRAMS. Dies with the test.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include "base/fd.h"

namespace engine {

class NodeProcess {
 public:
  // nullptr when this machine cannot; `why` says it.
  static std::unique_ptr<NodeProcess> start(std::string& why);
  ~NodeProcess();
  NodeProcess(const NodeProcess&) = delete;
  NodeProcess& operator=(const NodeProcess&) = delete;

  [[nodiscard]] std::string socket() const { return folder_ + "/run/node.sock"; }
  [[nodiscard]] std::string sandboxes() const { return folder_ + "/run/sandboxes"; }
  // Kills the node as a power cut would and starts it again.
  bool restart();
  // Kills the agents of all sandboxes of this node; false when none was found.
  bool kill_agents() const;
  // A root file system with busybox as true, echo, sleep and sh.
  static base::Fd busybox_tar();

 private:
  NodeProcess(std::string programs, std::string folder, int slot, base::Fd lock)
      : programs_(std::move(programs)),
        folder_(std::move(folder)),
        slot_(slot),
        lock_(std::move(lock)) {}
  static const char* testing_folder();
  bool spawn();
  void stop(int signal_number);
  void clean_up() const;
  [[nodiscard]] std::string prefix() const;
  [[nodiscard]] uid_t id_base() const;

  std::string programs_;
  std::string folder_;
  int slot_;  // names prefix, subnet and ids: several test programs run side by side
  base::Fd lock_;
  pid_t pid_ = -1;
};

}  // namespace engine
