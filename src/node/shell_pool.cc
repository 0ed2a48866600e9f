#include "node/shell_pool.h"

namespace node {
namespace {

using base::Milliseconds;
using base::Result;

// How long nothing must have been asked for before a place is made: longer while many are left.
constexpr Milliseconds kQuietWhenFull{25};
constexpr Milliseconds kQuietWhenLow{3};
constexpr Milliseconds kAfterFailure{1000};

}  // namespace

ShellPool::ShellPool(net::EventLoop& loop, Places& places, base::Log& log, size_t wanted)
    : loop_(loop), places_(places), log_(log), wanted_(wanted) {
  schedule(Milliseconds(0));
}

ShellPool::~ShellPool() {
  if (timer_ != 0) {
    loop_.remove_timer(timer_);
  }
  while (!ready_.empty()) {
    places_.discard(std::move(ready_.front()));
    ready_.pop_front();
  }
}

Result<std::unique_ptr<Place>> ShellPool::take() {
  last_taken_ = std::chrono::steady_clock::now();
  while (!ready_.empty()) {
    std::unique_ptr<Place> place = std::move(ready_.front());
    ready_.pop_front();
    schedule(kQuietWhenLow);
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

void ShellPool::schedule(Milliseconds wait) {
  if (timer_ == 0 && ready_.size() < wanted_) {
    timer_ = loop_.add_timer(std::chrono::steady_clock::now() + wait, [this] {
      timer_ = 0;
      refill();
    });
  }
}

void ShellPool::refill() {
  const Milliseconds quiet = ready_.size() * 2 < wanted_ ? kQuietWhenLow : kQuietWhenFull;
  if (std::chrono::steady_clock::now() < last_taken_ + quiet) {
    schedule(kQuietWhenLow);
    return;
  }
  auto place = places_.make();
  if (!place) {
    log_.error("cannot make a place for a sandbox ahead", {{"error", place.error().message}});
    schedule(kAfterFailure);
    return;
  }
  ready_.push_back(std::move(*place));
  schedule(Milliseconds(0));
}

}  // namespace node
