#include "service/journal.h"

namespace service {

void Journal::append(Entry entry) {
  pending_.push_back(std::move(entry));
  ++appended_;
  pending_event_.notify();
}

net::Task<void> Journal::flush() {
  const uint64_t wanted = appended_;
  while (written_ < wanted) {
    const auto wake = co_await written_event_.wait(net::Deadline::never());
    if (wake == net::EventLoop::Wake::cancelled) {
      co_return;
    }
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
    std::vector<Entry> batch = std::exchange(pending_, {});
    auto write = [this, &batch] {
      std::vector<base::Error> errors;
      for (const Entry& entry : batch) {
        if (auto done = entry.write(store_); !done) {
          errors.push_back(std::move(done).error());
        }
      }
      return errors;
    };
    const auto errors = co_await pool_.run(std::move(write));
    for (const base::Error& error : errors) {
      log_.error("a change could not be stored", {{"error", error.message}});
    }
    written_ += batch.size();
    for (const Entry& entry : batch) {
      if (entry.then) {
        entry.then();
      }
    }
    written_event_.notify();
  }
}

void Journal::stop() {
  stopping_ = true;
  pending_event_.notify();
}

}  // namespace service
