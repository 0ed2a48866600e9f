// Shuts this program in: an empty root, no privileges, and only the system calls that serving
// takes: no socket is made, no file opened, no program run. Expects to have been started by the
// node in fresh user, mount, pid, ipc, uts and network namespaces. Once, before anything hostile is
// read.
#pragma once

#include "base/error.h"

namespace dns {

base::Result<void> confine();

}  // namespace dns
