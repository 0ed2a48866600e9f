#include "service/journal.h"

namespace service {
namespace {

// Between two tries to reach a store that does not answer.
constexpr base::Milliseconds kRetryPause{250};

}  // namespace

void Journal::append(Entry entry) {
  pending_.push_back(std::move(entry));
  ++appended_;
  pending_event_.notify();
}

net::Task<void> Journal::flush() {
  const uint64_t wanted = appended_;
  while (written_ < wanted && !unanswered_) {
    const auto wake = co_await written_event_.wait(net::Deadline::never());
    if (wake == net::EventLoop::Wake::cancelled) {
      co_return;
    }
  }
}

Journal::Written Journal::write(store::Store& store, const std::vector<Entry>& batch, size_t from) {
  Written out{.count = from, .errors = {}, .unanswered = {}};
  for (; out.count < batch.size(); ++out.count) {
    auto done = batch[out.count].write(store);
    if (!done && (done.error().code == base::ErrorCode::unavailable ||
                  done.error().code == base::ErrorCode::disk_full)) {
      out.unanswered = std::move(done).error().message;
      break;
    }
    if (!done) {
      out.errors.push_back(std::move(done).error());
    }
  }
  return out;
}

net::Task<void> Journal::write_batch(std::vector<Entry> batch) {
  size_t count = 0;
  for (;;) {
    auto work = [this, &batch, count] { return write(store_, batch, count); };
    const Written written = co_await pool_.run(std::move(work));
    for (const base::Error& error : written.errors) {
      log_.error("a change could not be stored", {{"error", error.message}});
    }
    written_ += written.count - count;
    for (; count < written.count; ++count) {
      if (batch[count].then) {
        batch[count].then();
      }
    }
    const bool whole = count == batch.size();
    if (!whole && !unanswered_) {
      log_.warning("the store takes no changes: they wait", {{"error", written.unanswered}});
    } else if (whole && unanswered_) {
      log_.info("the store takes changes again");
    }
    unanswered_ = !whole;
    written_event_.notify();
    if (whole) {
      co_return;
    }
    if (stopping_) {
      log_.error("the store takes no changes: they are left to the next start",
                 {{"count", uint64_t{batch.size() - count}}});
      co_return;
    }
    co_await loop_.sleep_until(net::Deadline::after(kRetryPause));
  }
}

net::Task<void> Journal::run() {
  for (;;) {
    while (pending_.empty()) {
      if (stopping_) {
        co_return;
      }
      co_await pending_event_.wait(net::Deadline::never());
    }
    co_await write_batch(std::exchange(pending_, {}));
  }
}

void Journal::stop() {
  stopping_ = true;
  pending_event_.notify();
}

}  // namespace service
