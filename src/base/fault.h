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

inline constexpr char kFaultVariable[] = "SANDBOX_FAULT";

#ifdef SANDBOX_FAULT_POINTS
inline void fault_point(const char* name) {
  static const char* const wanted = ::getenv(kFaultVariable);
  if (wanted != nullptr && ::strcmp(wanted, name) == 0) {
    ::kill(::getpid(), SIGKILL);
    // The first process of a namespace does not get that signal from within.
    ::_exit(128 + SIGKILL);
  }
}
// Names the point of a process whose environment is empty; before the first point is reached.
inline void arm_fault_point(const char* name) { ::setenv(kFaultVariable, name, 1); }
#else
inline void fault_point(const char* /*name*/) {}
inline void arm_fault_point(const char* /*name*/) {}
#endif

}  // namespace base
