#include "agent/listeners.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/acting_as.h"
#include "net/stream.h"

namespace agent {
namespace {

using net::Deadline;
using net::EventLoop;

constexpr base::Milliseconds kDescriptorPause{100};

}  // namespace

Listener::Listener(EventLoop& loop, base::Fd socket, std::string path, Identity identity)
    : loop_(loop),
      socket_(std::move(socket)),
      path_(std::move(path)),
      identity_(std::move(identity)),
      room_(loop) {}

Listener::~Listener() {
  for (const auto& [number, waiting] : waiting_) {
    loop_.remove_timer(waiting.timer);
  }
  loop_.forget(socket_.get());
  if (!path_.empty()) {
    const ActingAs acting(identity_);
    ::unlink(path_.c_str());
  }
}

net::Task<Result<uint64_t>> Listener::accept() {
  for (;;) {
    EventLoop::Wake wake = EventLoop::Wake::ready;
    while (waiting_.size() >= kWaitingMax && wake == EventLoop::Wake::ready) {
      wake = co_await room_.wait(Deadline::never());
    }
    if (wake == EventLoop::Wake::ready) {
      wake = co_await loop_.wait(socket_.get(), EventLoop::Direction::read, Deadline::never());
    }
    if (wake != EventLoop::Wake::ready) {
      co_return std::unexpected(net::wake_error(wake, "accept"));
    }
    base::Fd accepted(::accept4(socket_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (accepted) {
      const uint64_t number = ++last_number_;
      Waiting& waiting = waiting_[number];
      waiting.socket = std::move(accepted);
      waiting.timer = loop_.add_timer(std::chrono::steady_clock::now() + kFetchPatience,
                                      [this, number] { take(number); });
      co_return number;
    }
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      wake = co_await loop_.sleep_until(Deadline::after(kDescriptorPause));
    }
  }
}

std::optional<base::Fd> Listener::take(uint64_t number) {
  auto waiting = waiting_.extract(number);
  if (!waiting) {
    return std::nullopt;
  }
  loop_.remove_timer(waiting.mapped().timer);
  room_.notify();
  return std::move(waiting.mapped().socket);
}

Listener* Listeners::find(std::string_view name) {
  const auto found = listeners_.find(name);
  return found == listeners_.end() ? nullptr : &found->second;
}

Result<Listeners::Held> Listeners::Held::add(Listeners& listeners, EventLoop& loop, base::Fd socket,
                                             std::string path, Identity identity) {
  if (listeners.listeners_.size() >= kListenersMax) {
    return base::fail(ErrorCode::overloaded, "there are ", kListenersMax, " listeners already");
  }
  const auto place = listeners.listeners_
                         .try_emplace(base::cat("l", ++listeners.last_), loop, std::move(socket),
                                      std::move(path), std::move(identity))
                         .first;
  return Held(listeners, place);
}

Listeners::Held::~Held() {
  if (listeners_ != nullptr) {
    listeners_->listeners_.erase(place_);
  }
}

}  // namespace agent
