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

constexpr long kKeep = -1;

// The plain calls, see below: the effective ids only, so that there is a way back.
bool become_fully(uint32_t uid, uint32_t gid) {
  return ::syscall(SYS_setresgid, kKeep, gid, kKeep) == 0 &&
         ::syscall(SYS_setresuid, kKeep, uid, kKeep) == 0;
}

bool differs_from_agent(const Identity& identity) {
  return identity.uid != 0 || identity.gid != 0 || !identity.groups.empty();
}

}  // namespace

ActingAs::ActingAs(const Identity& identity) : changed_(differs_from_agent(identity)) {
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

ActingFullyAs::ActingFullyAs(const Identity& identity) : changed_(differs_from_agent(identity)) {
  if (!changed_) {
    return;
  }
  const long groups = ::syscall(SYS_setgroups, identity.groups.size(), identity.groups.data());
  if (groups != 0 || !become_fully(identity.uid, identity.gid)) {
    std::abort();
  }
}

ActingFullyAs::~ActingFullyAs() {
  if (!changed_) {
    return;
  }
  // The user first: it is what gives the right to the rest back.
  const bool back = ::syscall(SYS_setresuid, kKeep, 0, kKeep) == 0 &&
                    ::syscall(SYS_setresgid, kKeep, 0, kKeep) == 0 &&
                    ::syscall(SYS_setgroups, 0, nullptr) == 0;
  if (!back) {
    std::abort();
  }
}

}  // namespace agent
