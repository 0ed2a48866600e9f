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

bool SmallFiles::add(SmallFile& file) {
  const uint32_t waiting = queue_.count();
  if (has_failed() || !queue_.start<&SmallFiles::work>(*this) || waiting == kQueueMax) {
    return false;
  }
  if (queue_.add(std::move(file)) % kWokenEvery == 0) {
    queue_.wake();
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
  queue_.wake();
  queue_.wait_for_count(0);
  has_failed_.store(false, std::memory_order_relaxed);
  return std::exchange(outcome_, {});
}

void SmallFiles::work() {
  const ActingAs acting(acting_);
  queue_.work([this](SmallFile& file) { take(file); });
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
