#include "agent/log_pace.h"

#include <algorithm>

namespace agent {
namespace {

// How often a command that is held up is looked at: followers come to a standstill in the meantime.
constexpr base::Milliseconds kHeldPoll{500};

}  // namespace

LogPace::Handle LogPace::join(uint64_t position, base::SteadyTime now) {
  return followers_.insert(followers_.end(),
                           Follower{.position = position, .last_progress = now, .behind = true});
}

void LogPace::moved(Handle follower, uint64_t position, base::SteadyTime now) {
  follower->position = position;
  follower->last_progress = now;
}

void LogPace::alive(Handle follower, base::SteadyTime now) { follower->last_progress = now; }

void LogPace::leave(Handle follower, base::SteadyTime now) {
  if (left_.size() == kLeftMax) {
    left_.pop_front();
  }
  left_.push_back({.position = follower->position, .until = now + kReturnTime});
  followers_.erase(follower);
}

void LogPace::expect(base::SteadyTime now) {
  left_.push_back({.position = 0, .until = now + kFirstComeTime});
}

std::optional<uint64_t> LogPace::fastest_live(uint64_t end, base::SteadyTime now) {
  std::optional<uint64_t> fastest;
  for (Follower& follower : followers_) {
    const bool behind = follower.position < end;
    if (behind && !follower.behind) {
      follower.last_progress = now;  // until now there was nothing to take
    }
    follower.behind = behind;
    if (!behind || now < follower.last_progress + kStandstill) {
      fastest = std::max(fastest.value_or(0), follower.position);
    }
  }
  return fastest;
}

LogPace::Verdict LogPace::ask(uint64_t end, uint64_t capacity, base::SteadyTime now) {
  std::erase_if(left_, [now](const Left& left) { return now >= left.until; });
  const auto live = fastest_live(end, now);
  auto fastest = live;
  for (const Left& left : left_) {
    fastest = std::max(fastest.value_or(0), left.position);
  }
  if (!live || *live >= end) {
    catch_up_until_.reset();
  } else if (!catch_up_until_) {
    catch_up_until_ = now + kCatchUpTime;
  }
  if (!fastest) {
    return {};
  }
  if (live && *live < end && now < *catch_up_until_) {
    return {.bytes_max = 0, .ask_again = *catch_up_until_};
  }
  const uint64_t allowed = capacity - capacity / 4;
  const uint64_t behind = end - std::min(end, *fastest);
  return {.bytes_max = allowed - std::min(allowed, behind), .ask_again = now + kHeldPoll};
}

}  // namespace agent
