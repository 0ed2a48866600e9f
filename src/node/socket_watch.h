// Remembers in which network namespaces the sandboxes have ever made an internet socket: a few
// instructions of BPF at the cgroup that all of them lie in, run by the kernel when such a socket
// is made and gone with this object. Owned by the node; its only thread. At most `name_spaces` are
// remembered; were one ever forgotten for lack of room, the answer is "yes" for all from then on.
// Errors are code io.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/error.h"
#include "base/fd.h"

namespace node {

class SocketWatch {
 public:
  // `cgroup_folder` in a cgroup v2 tree. Fails where the kernel has no BPF for cgroups.
  static base::Result<std::unique_ptr<SocketWatch>> open(const std::string& cgroup_folder,
                                                         uint32_t name_spaces);

  // Of the namespace with that cookie (SO_NETNS_COOKIE), since forget() or its making.
  [[nodiscard]] bool saw_one(uint64_t name_space) const;
  // Once the namespace is given up.
  void forget(uint64_t name_space);

 private:
  SocketWatch() = default;

  base::Fd map_;
  base::Fd program_;
  base::Fd link_;  // keeps the program at the cgroup
};

}  // namespace node
