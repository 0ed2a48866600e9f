#include "node/shell_pool.h"

#include <unistd.h>

#include "base/sys.h"
#include "base/text.h"

namespace node {
namespace {

using base::Milliseconds;
using base::Result;

// How long nothing must have been asked for before a place is made; when less than one in kLowPart
// is left, only so long that creates that came together are answered first.
constexpr Milliseconds kQuiet{25};
constexpr Milliseconds kQuietWhenLow{3};
constexpr size_t kLowPart = 8;
// While others wait for a CPU (the first commands of a burst do), places wait too, for so long.
constexpr Milliseconds kBusyPatience{500};
constexpr Milliseconds kAfterFailure{1000};
constexpr size_t kLoadBytesMax = 256;

// Whether more threads could run right now, this one included, than there are CPUs.
bool cpus_are_short() {
  // "0.20 0.18 0.12 1/80 11206": how many run or could, of how many.
  const auto text = base::sys::read_file("/proc/loadavg", kLoadBytesMax);
  const auto fields = base::split(text ? std::string_view(*text) : std::string_view(), ' ');
  const auto running = fields.size() > 3
                           ? base::parse_number<long>(fields[3].substr(0, fields[3].find('/')))
                           : std::nullopt;
  return running && *running > ::sysconf(_SC_NPROCESSORS_ONLN);
}

}  // namespace

ShellPool::ShellPool(net::EventLoop& loop, Places& places, base::Log& log, size_t wanted)
    : loop_(loop), places_(places), log_(log), wanted_(wanted) {
  count_lacking();
  schedule(std::chrono::steady_clock::now());
}

ShellPool::~ShellPool() {
  if (timer_ != 0) {
    loop_.remove_timer(timer_);
  }
  while (!ready_.empty()) {
    places_.discard(std::move(ready_.front()));
    ready_.pop_front();
  }
  places_.network().want_spares(0);
}

// A removed sandbox's network is only kept for a place that is to be made.
void ShellPool::count_lacking() { places_.network().want_spares(wanted_ - ready_.size()); }

Result<std::unique_ptr<Place>> ShellPool::take() {
  last_taken_ = std::chrono::steady_clock::now();
  while (!ready_.empty()) {
    std::unique_ptr<Place> place = std::move(ready_.front());
    ready_.pop_front();
    count_lacking();
    schedule(last_taken_ + quiet());
    const auto early_end = place->shell->outcome();
    if (!early_end) {
      return place;
    }
    log_.error("a shell ended before its sandbox came",
               {{"step", jail::describe(early_end->failure)}});
    places_.discard(std::move(place));
  }
  return places_.make();
}

bool ShellPool::is_low() const { return ready_.size() * kLowPart < wanted_; }

Milliseconds ShellPool::quiet() const { return is_low() ? kQuietWhenLow : kQuiet; }

void ShellPool::schedule(base::SteadyTime when) {
  if (timer_ == 0 && ready_.size() < wanted_) {
    timer_ = loop_.add_timer(when, [this] {
      timer_ = 0;
      refill();
    });
  }
}

void ShellPool::refill() {
  const auto now = std::chrono::steady_clock::now();
  if (now < last_taken_ + quiet()) {
    schedule(last_taken_ + quiet());
    return;
  }
  if (!is_low() && now < last_taken_ + kBusyPatience && cpus_are_short()) {
    schedule(now + kQuiet);
    return;
  }
  auto place = places_.make();
  if (!place) {
    log_.error("cannot make a place for a sandbox ahead", {{"error", place.error().message}});
    schedule(now + kAfterFailure);
    return;
  }
  ready_.push_back(std::move(*place));
  count_lacking();
  schedule(now);
}

}  // namespace node
