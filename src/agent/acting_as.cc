#include "agent/acting_as.h"

#include <sys/fsuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>

namespace agent {
namespace {

// Both calls return the previous id and never fail visibly: a second call tells.
bool become(uint32_t uid, uint32_t gid) {
  ::setfsgid(gid);
  ::setfsuid(uid);
  constexpr auto kAsk = static_cast<uint32_t>(-1);
  return static_cast<uint32_t>(::setfsgid(kAsk)) == gid &&
         static_cast<uint32_t>(::setfsuid(kAsk)) == uid;
}

}  // namespace

ActingAs::ActingAs(const Identity& identity)
    : changed_(identity.uid != 0 || identity.gid != 0 || !identity.groups.empty()) {
  if (!changed_) {
    return;
  }
  // The plain call: only this thread, without the C library's signal to others.
  const long groups = ::syscall(SYS_setgroups, identity.groups.size(), identity.groups.data());
  if (groups != 0 || !become(identity.uid, identity.gid)) {
    // Going on would act with root's rights. An id outside the sandbox's range was refused before.
    std::abort();
  }
}

ActingAs::~ActingAs() {
  if (!changed_) {
    return;
  }
  const bool back = become(0, 0) && ::syscall(SYS_setgroups, 0, nullptr) == 0;
  if (!back) {
    std::abort();
  }
}

}  // namespace agent
