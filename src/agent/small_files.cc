#include "agent/small_files.h"

#include <errno.h>
#include <sys/stat.h>

#include <utility>

#include "agent/acting_as.h"
#include "base/sys.h"

namespace agent {
namespace {

// Waking the thread costs as much as writing a file: it is woken for many.
constexpr uint32_t kWokenEvery = 64;
static_assert(kWokenEvery < SmallFiles::kQueueMax);

}  // namespace

SmallFiles::~SmallFiles() {
  if (thread_.started()) {
    over_.store(true, std::memory_order_relaxed);
    added_.fetch_add(1, std::memory_order_release);
    added_.notify_one();
    thread_.join();
  }
}

bool SmallFiles::add(SmallFile& file) {
  const uint32_t added = added_.load(std::memory_order_relaxed);
  if (has_failed() || !thread_.start<&SmallFiles::work>(*this) ||
      added - done_.load(std::memory_order_acquire) == kQueueMax) {
    return false;
  }
  queue_[added % kQueueMax] = std::move(file);
  added_.store(added + 1, std::memory_order_release);
  if ((added + 1) % kWokenEvery == 0) {
    added_.notify_one();
  }
  return true;
}

int SmallFiles::write(const SmallFile& file) {
  if (const auto written = base::sys::write_all(file.file.get(), file.bytes); !written) {
    return written.error().errno_value;
  }
  return ::futimens(file.file.get(), file.times.data()) == 0 ? 0 : errno;
}

SmallFiles::Outcome SmallFiles::wait() {
  const uint32_t added = added_.load(std::memory_order_relaxed);
  added_.notify_one();
  for (;;) {
    const uint32_t done = done_.load(std::memory_order_acquire);
    if (done == added) {
      has_failed_.store(false, std::memory_order_relaxed);
      return std::exchange(outcome_, {});
    }
    done_.wait(done, std::memory_order_acquire);
  }
}

void SmallFiles::work() {
  const ActingAs acting(acting_);
  for (uint32_t next = 0;; ++next) {
    added_.wait(next, std::memory_order_acquire);
    if (over_.load(std::memory_order_relaxed) &&
        added_.load(std::memory_order_acquire) == next + 1) {
      return;
    }
    take(queue_[next % kQueueMax]);
    done_.store(next + 1, std::memory_order_release);
    done_.notify_one();
  }
}

void SmallFiles::take(SmallFile& file) {
  if (outcome_.errno_value == 0) {
    outcome_.errno_value = write(file);
  }
  if (outcome_.errno_value != 0) {
    has_failed_.store(true, std::memory_order_relaxed);
    outcome_.unwritten.push_back(std::move(file));
    return;
  }
  file.file.reset();
  ++outcome_.written_count;
  if (outcome_.written.size() < kToldMax) {
    outcome_.written.push_back(std::move(file.member));
  }
}

}  // namespace agent
