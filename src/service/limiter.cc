#include "service/limiter.h"

#include <algorithm>
#include <cmath>

namespace service {
namespace {

using base::ErrorCode;
using base::Result;

constexpr int64_t kBytesPerMb = int64_t{1024} * 1024;
// A create or stream ends when it ends; this is a polite time to look again.
constexpr int64_t kRetrySeconds = 1;

std::unexpected<base::Error> limited(const std::string& message, int64_t retry_sec) {
  auto error = base::fail(ErrorCode::rate_limited, message);
  error.error().details.emplace_back("retry_after", base::cat(retry_sec));
  return error;
}

// A caller without a token's id (who signed in otherwise) counts by its name.
const std::string& key_of(const Caller& caller) {
  return caller.token_id.empty() ? caller.subject : caller.token_id;
}

}  // namespace

std::string_view Limiter::name(Kind kind) {
  switch (kind) {
    case Kind::rate:
      return "rate";
    case Kind::creates:
      return "creates";
    case Kind::streams:
      return "streams";
    case Kind::body:
      return "body";
  }
  return "";
}

Limiter::Limits Limiter::limits_of(const std::string& token_id) const {
  Limits limits = defaults_;
  if (const auto own = own_.find(token_id); own != own_.end()) {
    const TokenLimits& given = own->second;
    limits.requests_per_sec = given.requests_per_sec.value_or(limits.requests_per_sec);
    limits.burst = given.burst.value_or(given.requests_per_sec ? 0 : limits.burst);
    limits.creates = given.concurrent_creates.value_or(limits.creates);
    limits.streams = given.concurrent_streams.value_or(limits.streams);
    limits.body_bytes = given.body_mb ? *given.body_mb * kBytesPerMb : limits.body_bytes;
  }
  // A bucket holds at least a second's requests: less would refuse an even flow.
  limits.burst = std::max(limits.burst, limits.requests_per_sec);
  return limits;
}

Limiter::State& Limiter::state_of(const Caller& caller) {
  const std::string& key = key_of(caller);
  if (const auto found = states_.find(key); found != states_.end()) {
    return found->second;
  }
  if (states_.size() >= kTokensMax) {
    forget_idle();
  }
  const Limits limits = limits_of(key);
  State state{
      .limits = limits, .tokens = static_cast<double>(limits.burst), .filled_at = clock_.steady()};
  return states_.emplace(key, state).first->second;
}

void Limiter::fill(State& state) const {
  const auto now = clock_.steady();
  const std::chrono::duration<double> passed = now - state.filled_at;
  state.filled_at = now;
  state.tokens =
      std::min(state.tokens + passed.count() * static_cast<double>(state.limits.requests_per_sec),
               static_cast<double>(state.limits.burst));
}

void Limiter::forget_idle() {
  for (auto at = states_.begin(); at != states_.end();) {
    State& state = at->second;
    fill(state);
    const bool is_idle = state.creates == 0 && state.streams == 0 &&
                         state.tokens >= static_cast<double>(state.limits.burst);
    at = is_idle ? states_.erase(at) : std::next(at);
  }
}

Result<Limiter::Left> Limiter::take(const Caller& caller) {
  State& state = state_of(caller);
  const int64_t rate = state.limits.requests_per_sec;
  if (rate == 0) {
    return Left{};
  }
  fill(state);
  if (state.tokens < 1) {
    count_refused(Kind::rate);
    const double wait = (1 - state.tokens) / static_cast<double>(rate);
    return limited(base::cat("more than ", rate, " requests a second"),
                   std::max<int64_t>(static_cast<int64_t>(std::ceil(wait)), 1));
  }
  state.tokens -= 1;
  const double missing = static_cast<double>(state.limits.burst) - state.tokens;
  return Left{.limit = rate,
              .remaining = static_cast<int64_t>(state.tokens),
              .reset_sec = static_cast<int64_t>(std::ceil(missing / static_cast<double>(rate)))};
}

Result<Limiter::Held> Limiter::hold(const Caller& caller, Kind kind) {
  State& state = state_of(caller);
  const bool is_create = kind == Kind::creates;
  const int64_t most = is_create ? state.limits.creates : state.limits.streams;
  int64_t& count = is_create ? state.creates : state.streams;
  if (most > 0 && count >= most) {
    count_refused(kind);
    return limited(base::cat("more than ", most, is_create ? " creates" : " streams", " at once"),
                   kRetrySeconds);
  }
  // References into an unordered_map hold while others come and go; a state with something open is
  // never forgotten.
  return Held(count);
}

int64_t Limiter::body_bytes_max(const Caller& caller) { return state_of(caller).limits.body_bytes; }

int64_t Limiter::open_streams() const {
  int64_t sum = 0;
  for (const auto& [key, state] : states_) {
    sum += state.streams;
  }
  return sum;
}

void Limiter::set(const std::string& token_id, const std::optional<TokenLimits>& limits) {
  if (limits) {
    own_[token_id] = *limits;
  } else {
    own_.erase(token_id);
  }
  if (const auto found = states_.find(token_id); found != states_.end()) {
    State& state = found->second;
    const bool had_rate = state.limits.requests_per_sec > 0;
    fill(state);
    state.limits = limits_of(token_id);
    const auto full = static_cast<double>(state.limits.burst);
    state.tokens = had_rate ? std::min(state.tokens, full) : full;
  }
}

}  // namespace service
