// System calls that touch no memory of the C library (errno would be the agent's own in a child
// that shares its memory). For the child between clone3 and execve only. They return -errno.
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

namespace agent {

#if defined(__x86_64__)
inline long raw_call(long number, long a = 0, long b = 0, long c = 0, long d = 0,
                     long e = 0) noexcept {
  long result = 0;
  register long fourth asm("r10") = d;
  register long fifth asm("r8") = e;  // prctl(2) refuses what is not 0 there
  asm volatile("syscall"
               : "=a"(result)
               : "a"(number), "D"(a), "S"(b), "d"(c), "r"(fourth), "r"(fifth)
               : "rcx", "r11", "memory");
  return result;
}
#else
// Elsewhere the child has memory of its own (spawn.cc), so errno does no harm.
inline long raw_call(long number, long a = 0, long b = 0, long c = 0, long d = 0,
                     long e = 0) noexcept {
  const long result = ::syscall(number, a, b, c, d, e);
  return result == -1 ? -errno : result;
}
#endif

inline long raw_address(const void* pointer) noexcept {
  return static_cast<long>(reinterpret_cast<intptr_t>(pointer));  // NOLINT: the kernel's own way
}

}  // namespace agent
