#include "agent/small_thread.h"

#include <stddef.h>

#include <utility>

namespace agent {
namespace {

constexpr size_t kStackBytes = size_t{64} * 1024;  // a few calls deep, nothing large

}  // namespace

bool SmallThread::start(void* (*run)(void*), void* owner) {
  if (started_ || !std::exchange(may_start_, false)) {
    return started_;
  }
  pthread_attr_t attributes;
  ::pthread_attr_init(&attributes);
  ::pthread_attr_setstacksize(&attributes, kStackBytes);
  started_ = ::pthread_create(&thread_, &attributes, run, owner) == 0;
  ::pthread_attr_destroy(&attributes);
  return started_;
}

void SmallThread::join() {
  if (std::exchange(started_, false)) {
    ::pthread_join(thread_, nullptr);
  }
}

}  // namespace agent
