#include "cli/session_pump.h"

#include <algorithm>

namespace cli {

using base::ErrorCode;
using std::chrono::milliseconds;

namespace {

// TERM, three seconds, KILL, and the way there and back.
constexpr milliseconds kCancelTime{6000};
constexpr int kLongMilliseconds = 60'000;  // then the same wait again
// The last words of a session that is gone.
constexpr milliseconds kLastWordsTime{300};

}  // namespace

Result<PumpOutcome> SessionPump::run() {
  while (!finished()) {
    auto outcome = turn();
    if (const int signal = context_.interrupt.signal(); signal != 0) {
      const bool second = signal_ != 0;
      signal_ = signal_ != 0 ? signal_ : signal;
      if (second || cancel_target_.empty()) {
        break;
      }
      begin_cancel();
      continue;
    }
    if (!outcome && signal_ == 0) {
      return std::unexpected(std::move(outcome).error());
    }
    if (!outcome && cancelled_) {
      break;  // the session is gone, and its stream with it
    }
  }
  return PumpOutcome{.end = stream_.end(),
                     .signal = signal_,
                     .left = !stream_.end() && input_ != nullptr && input_->left()};
}

bool SessionPump::finished() const {
  if ((stream_.end() && stream_.output().empty()) ||
      (signal_ != 0 && context_.clock.steady() >= cancel_end_)) {
    return true;
  }
  return input_ != nullptr && input_->left();
}

Result<void> SessionPump::turn() {
  wait();
  RETURN_IF_ERROR(context_.interrupt.check());
  if (terminal_ != nullptr) {
    pollfd resized{terminal_->fd(), POLLIN, 0};
    if (::poll(&resized, 1, 0) > 0) {
      terminal_->refresh();
      stream_.send_size(terminal_size());
    }
  }
  step_cancel();
  if (!stream_.end()) {
    RETURN_IF_ERROR(stream_.step());
  }
  RETURN_IF_ERROR(stream_.output().flush());
  return input_ != nullptr && signal_ == 0 && !stream_.end() ? input_->step() : Result<void>{};
}

void SessionPump::wait() {
  std::vector<pollfd> waits{{context_.interrupt.fd(), POLLIN, 0}};
  int timeout = stream_.end() ? kLongMilliseconds : stream_.add_waits(waits);
  const auto shorten = [&timeout](int milliseconds) {
    timeout = milliseconds >= 0 ? std::min(timeout, milliseconds) : timeout;
  };
  stream_.output().add_waits(waits);
  if (terminal_ != nullptr) {
    waits.push_back({terminal_->fd(), POLLIN, 0});
  }
  if (input_ != nullptr && signal_ == 0 && !stream_.end()) {
    shorten(input_->add_waits(waits));
  }
  if (canceller_ != nullptr) {
    shorten(canceller_->add_waits(waits));
  }
  if (signal_ != 0) {
    const auto left = std::chrono::ceil<milliseconds>(cancel_end_ - context_.clock.steady());
    shorten(static_cast<int>(std::max<int64_t>(left.count(), 0)));
  }
  ::poll(waits.data(), waits.size(), timeout);
}

void SessionPump::begin_cancel() {
  context_.interrupt.clear();
  if (input_ != nullptr) {
    input_->abandon();
  }
  cancel_end_ = context_.clock.steady() + kCancelTime;
  canceller_ = std::make_unique<HttpClient>(context_.http.endpoint(), context_.interrupt);
  canceller_->begin({.method = "DELETE", .target = cancel_target_});
  step_cancel();
}

void SessionPump::step_cancel() {
  if (canceller_ == nullptr || !canceller_->busy()) {
    return;
  }
  const auto answer = canceller_->step();
  if (!answer) {
    return;
  }
  // 404: it has ended meanwhile. Anything else is tried again by whoever cleans up.
  cancelled_ = true;
  cancel_end_ = std::min(cancel_end_, context_.clock.steady() + kLastWordsTime);
}

}  // namespace cli
