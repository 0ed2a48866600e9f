#include "agent/idle_memory.h"

#include <malloc.h>
#include <sys/mman.h>

#include <cstdint>

// Set by the linker.
extern "C" {
extern const char __executable_start;  // NOLINT: its name is not ours
extern const char etext;
}

namespace agent {
namespace {

constexpr base::Milliseconds kIdleTime{2000};
constexpr uintptr_t kPageBytes = 4096;

void release_memory() {
  ::malloc_trim(0);
  // Only whole pages of constants and code: they are never written, so nothing is lost.
  const auto begin = reinterpret_cast<uintptr_t>(&__executable_start);       // NOLINT
  const auto end = reinterpret_cast<uintptr_t>(&etext) & ~(kPageBytes - 1);  // NOLINT
  ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);     // NOLINT
}

}  // namespace

IdleMemory::~IdleMemory() { loop_.remove_timer(timer_); }

void IdleMemory::note_activity() {
  last_activity_ = std::chrono::steady_clock::now();
  if (timer_ == 0) {
    timer_ = loop_.add_timer(last_activity_ + kIdleTime, [this] { look(); });
  }
}

void IdleMemory::look() {
  timer_ = 0;
  if (std::chrono::steady_clock::now() < last_activity_ + kIdleTime) {
    timer_ = loop_.add_timer(last_activity_ + kIdleTime, [this] { look(); });
    return;
  }
  release_memory();
}

}  // namespace agent
