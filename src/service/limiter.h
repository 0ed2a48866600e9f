// Limiter: what one token may ask for at once. A bucket of requests that fills again with time, and
// how many creates and streams are open. Limits are an operator's for all tokens, and for one token
// what the store has for it. On the way of every request: one look-up by the token's id, nothing is
// allocated but at a token's first request. With several gateways each counts for itself.
// Owned by main; loop thread only. Bounded: a token that has nothing open and a full bucket is
// forgotten when there are more than kTokensMax.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "service/access.h"
#include "store/store.h"

namespace service {

using TokenLimits = store::TokenLimits;

class Limiter {
 public:
  static constexpr size_t kTokensMax = 10'000;

  enum class Kind { rate, creates, streams, body };
  static constexpr size_t kKinds = 4;
  static std::string_view name(Kind kind);

  // What limits a token: 0 where nothing does.
  struct Limits {
    int64_t requests_per_sec = 0;
    int64_t burst = 0;
    int64_t creates = 0;
    int64_t streams = 0;
    int64_t body_bytes = 0;
  };
  Limiter(base::Clock& clock, Limits defaults) : clock_(clock), defaults_(defaults) {}
  Limiter(const Limiter&) = delete;
  Limiter& operator=(const Limiter&) = delete;

  struct Left {
    int64_t limit = 0;  // requests a second; 0: there is none
    int64_t remaining = 0;
    int64_t reset_sec = 0;  // until the bucket is full
  };
  // One request. rate_limited (details.retry_after).
  base::Result<Left> take(const Caller& caller);

  // One create or stream while it lives.
  class Held {
   public:
    Held() = default;
    Held(Held&& other) noexcept : count_(std::exchange(other.count_, nullptr)) {}
    Held& operator=(Held&& other) noexcept {
      std::swap(count_, other.count_);
      return *this;
    }
    ~Held() {
      if (count_ != nullptr) {
        --*count_;
      }
    }

   private:
    friend class Limiter;
    explicit Held(int64_t& count) : count_(&count) { ++count; }
    int64_t* count_ = nullptr;
  };
  // rate_limited where the token has its number open already. Kind::creates or Kind::streams.
  base::Result<Held> hold(const Caller& caller, Kind kind);
  // The longest body, as it is sent; 0: the route's own bound.
  int64_t body_bytes_max(const Caller& caller);
  // A body that was longer.
  void count_refused(Kind kind) { ++refused_.at(static_cast<size_t>(kind)); }

  // Of that token only; nullopt: it has the operator's again.
  void set(const std::string& token_id, const std::optional<TokenLimits>& limits);
  [[nodiscard]] Limits limits_of(const std::string& token_id) const;
  // Of all tokens.
  [[nodiscard]] int64_t open_streams() const;
  [[nodiscard]] uint64_t refused(Kind kind) const { return refused_.at(static_cast<size_t>(kind)); }

 private:
  struct State {
    Limits limits;
    double tokens = 0;
    base::SteadyTime filled_at;
    int64_t creates = 0;
    int64_t streams = 0;
  };
  struct HashText {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };
  using States = std::unordered_map<std::string, State, HashText, std::equal_to<>>;

  State& state_of(const Caller& caller);
  void fill(State& state) const;
  void forget_idle();

  base::Clock& clock_;
  Limits defaults_;
  std::unordered_map<std::string, TokenLimits> own_;  // of tokens with limits of their own
  States states_;
  std::array<uint64_t, kKinds> refused_{};
};

}  // namespace service
