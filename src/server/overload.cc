#include "server/overload.h"

#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>

#include "base/sys.h"
#include "base/text.h"

namespace server {
namespace {

constexpr base::Milliseconds kSampleInterval{100};
// The host changes slowly: looked at once in so many samples.
constexpr size_t kHostSamples = 10;
constexpr int64_t kBytesPerKb = 1024;
constexpr size_t kMeminfoBytesMax = size_t{16} * 1024;
constexpr std::array kRetrySeconds{1, 2, 5, 10};

struct Threshold {
  Pressure pressure;
  int64_t lag_ms;           // at least so late
  int64_t files_percent;    // at least so many of those allowed
  int64_t memory_permille;  // at most so much available
};
// A request waits about as long as the loop is late; above a quarter of a second people notice,
// above some seconds programs give up. Descriptors: the last of them belong to requests into
// sandboxes, which need one for the client and one for the agent.
constexpr std::array kThresholds{Threshold{Pressure::heavy, 250, 80, 40},
                                 Threshold{Pressure::other, 1000, 90, 20},
                                 Threshold{Pressure::inside, 3000, 97, 10}};

// `ease` in per cent of the threshold: 100, or less for a level that is held already.
bool is_over(const Load& load, const Threshold& threshold, int64_t ease) {
  constexpr int64_t kPercent = 100;
  constexpr int64_t kPermille = 1000;
  if (load.lag_ms * kPercent >= threshold.lag_ms * ease) {
    return true;
  }
  if (load.files_max > 0 &&
      load.open_files * kPercent * kPercent >= load.files_max * threshold.files_percent * ease) {
    return true;
  }
  return load.memory_total > 0 && load.memory_available * kPermille * ease <=
                                      load.memory_total * threshold.memory_permille * kPercent;
}

int64_t meminfo_bytes(std::string_view text, std::string_view key) {
  const size_t at = text.find(key);
  if (at == std::string_view::npos) {
    return 0;
  }
  text.remove_prefix(at + key.size());
  text = base::trim(text.substr(0, text.find("kB")));
  return base::parse_number<int64_t>(text).value_or(0) * kBytesPerKb;
}

// The folder's size is the number of open descriptors since Linux 6.2; before, its entries are
// counted.
int64_t count_open_files() {
  struct stat status{};
  if (::stat("/proc/self/fd", &status) == 0 && status.st_size > 0) {
    return status.st_size;
  }
  std::error_code error;
  int64_t count = 0;
  for (std::filesystem::directory_iterator at("/proc/self/fd", error), end; !error && at != end;
       at.increment(error)) {
    ++count;
  }
  return count;
}

}  // namespace

std::string_view name(Work work) {
  switch (work) {
    case Work::health:
      return "health";
    case Work::inside:
      return "inside";
    case Work::other:
      return "other";
    case Work::heavy:
      return "heavy";
  }
  return "";
}

Pressure pressure_of(const Load& load, Pressure before) {
  constexpr int64_t kBegins = 100;
  constexpr int64_t kHolds = 80;
  Pressure found = Pressure::none;
  for (const Threshold& threshold : kThresholds) {
    if (is_over(load, threshold, before >= threshold.pressure ? kHolds : kBegins)) {
      found = threshold.pressure;
    }
  }
  return found;
}

bool is_refused(Work work, Pressure pressure) {
  switch (pressure) {
    case Pressure::none:
      return false;
    case Pressure::heavy:
      return work == Work::heavy;
    case Pressure::other:
      return work == Work::heavy || work == Work::other;
    case Pressure::inside:
      return work != Work::health;
  }
  return false;
}

base::Result<void> Overload::check(Work work) {
  if (!is_refused(work, pressure_)) {
    return {};
  }
  ++refused_.at(static_cast<size_t>(work));
  auto error = base::fail(base::ErrorCode::overloaded, "the gateway has too much to do");
  error.error().details.emplace_back("retry_after",
                                     base::cat(kRetrySeconds.at(static_cast<size_t>(pressure_))));
  return error;
}

void Overload::look_at_host() {
  load_.open_files = count_open_files();
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    load_.files_max = static_cast<int64_t>(limit.rlim_cur);
  }
  if (const auto text = base::sys::read_file("/proc/meminfo", kMeminfoBytesMax)) {
    load_.memory_total = meminfo_bytes(*text, "MemTotal:");
    load_.memory_available = meminfo_bytes(*text, "MemAvailable:");
  }
}

net::Task<void> Overload::run() {
  for (;;) {
    const auto due = std::chrono::steady_clock::now() + kSampleInterval;
    const auto wake = co_await loop_.sleep_until(net::Deadline::at(due));
    if (wake == net::EventLoop::Wake::cancelled) {
      co_return;
    }
    const auto late = std::chrono::steady_clock::now() - due;
    lags_.observe(late);
    lags_ms_.at(next_sample_ % kSamples) =
        std::chrono::duration_cast<base::Milliseconds>(late).count();
    if (next_sample_++ % kHostSamples == 0) {
      look_at_host();
    }
    load_.lag_ms = *std::ranges::min_element(lags_ms_);
    take(load_);
  }
}

}  // namespace server
