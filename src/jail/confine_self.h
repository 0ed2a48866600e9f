// How a program that reads hostile bytes confines itself: a root with nothing in it, no privileges,
// a list of system calls. Single-threaded callers only. Failures are code io and name the step.
#pragma once

#include <sys/resource.h>

#include <span>
#include <string>

#include "base/error.h"

namespace jail {

// Namespaces of its own for a process without privileges: users (it stays who it is), mounts, ipc,
// uts and an empty network. Sockets that are open already stay as they are.
base::Result<void> enter_own_namespaces();

// Needs to be root of a user namespace with mounts of its own. With `folder` that one is shown in
// the new root as /`shown_as`, without devices and setuid programs.
base::Result<void> enter_empty_root(const std::string& folder = "",
                                    const std::string& shown_as = "");

struct SelfLimits {
  rlim_t memory_bytes = RLIM_INFINITY;  // of data; not with sanitizers, whose shadow is larger
  rlim_t descriptors = 0;
};
// No new privileges, no capabilities, no core files.
base::Result<void> give_up_privileges(const SelfLimits& limits);

// Whatever is not in the list fails with EPERM from here on.
base::Result<void> allow_only(std::span<const int> system_calls);
// The other way round, for what a process still has to lose.
base::Result<void> forbid(std::span<const int> system_calls);

}  // namespace jail
