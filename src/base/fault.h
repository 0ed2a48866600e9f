// Named points at which a test kills the process, as a power cut would: `fault_point("name")` sends
// the process SIGKILL where the environment has SANDBOX_FAULT=name. Compiled in only with
// SANDBOX_FAULT_POINTS; otherwise nothing is left of it.
#pragma once

#ifdef SANDBOX_FAULT_POINTS
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#endif

namespace base {

#ifdef SANDBOX_FAULT_POINTS
inline void fault_point(const char* name) {
  static const char* const wanted = ::getenv("SANDBOX_FAULT");
  if (wanted != nullptr && ::strcmp(wanted, name) == 0) {
    ::kill(::getpid(), SIGKILL);
  }
}
#else
inline void fault_point(const char* /*name*/) {}
#endif

}  // namespace base
