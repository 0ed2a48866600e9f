// System calls that touch no memory of the C library: errno would be the agent's own in a child
// that shares its memory. For that child only, between clone3 and execve. They return -errno.
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace agent {

// What a child that shares its parent's memory runs, on a stack of its own; it must not return.
using ChildMain = void (*)(const void* argument);

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

// clone(2) or clone3(2) by number with its arguments, which give the child a stack. In C both
// would return through the parent's frame.
inline long raw_clone(long number, long a, long b, long c, long d, ChildMain child,
                      const void* argument) noexcept {
  long result = 0;
  register long fourth asm("r10") = d;
  register long fifth asm("r8") = 0;
  register ChildMain entry asm("r12") = child;
  register const void* given asm("r13") = argument;
  asm volatile(
      "syscall\n\t"
      "test %%rax, %%rax\n\t"
      "jnz 1f\n\t"
      "xor %%ebp, %%ebp\n\t"
      "mov %%r13, %%rdi\n\t"
      "call *%%r12\n\t"
      "ud2\n"
      "1:"
      : "=a"(result)
      : "a"(number), "D"(a), "S"(b), "d"(c), "r"(fourth), "r"(fifth), "r"(entry), "r"(given)
      : "rcx", "r11", "memory", "cc");
  return result;
}

#elif defined(__aarch64__)

inline long raw_call(long number, long a = 0, long b = 0, long c = 0, long d = 0,
                     long e = 0) noexcept {
  register long call asm("x8") = number;
  register long first asm("x0") = a;
  register long second asm("x1") = b;
  register long third asm("x2") = c;
  register long fourth asm("x3") = d;
  register long fifth asm("x4") = e;
  asm volatile("svc #0"
               : "+r"(first)
               : "r"(call), "r"(second), "r"(third), "r"(fourth), "r"(fifth)
               : "memory");
  return first;
}

// See above; clone(2) takes its fourth and fifth argument the other way round here.
inline long raw_clone(long number, long a, long b, long c, long d, ChildMain child,
                      const void* argument) noexcept {
  register long call asm("x8") = number;
  register long first asm("x0") = a;
  register long second asm("x1") = b;
  register long third asm("x2") = c;
  register long fourth asm("x3") = 0;
  register long fifth asm("x4") = d;
  register ChildMain entry asm("x20") = child;
  register const void* given asm("x21") = argument;
  asm volatile(
      "svc #0\n\t"
      "cbnz x0, 1f\n\t"
      "mov x29, xzr\n\t"
      "mov x0, x21\n\t"
      "blr x20\n\t"
      "brk #0\n"
      "1:"
      : "+r"(first)
      : "r"(call), "r"(second), "r"(third), "r"(fourth), "r"(fifth), "r"(entry), "r"(given)
      : "memory", "cc");
  return first;
}

#else
#error "raw_call and raw_clone are to be written for this processor"
#endif

inline long raw_address(const void* pointer) noexcept {
  return static_cast<long>(reinterpret_cast<intptr_t>(pointer));  // NOLINT: the kernel's own way
}

}  // namespace agent
