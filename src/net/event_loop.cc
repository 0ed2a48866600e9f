#include "net/event_loop.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>

namespace net {

EventLoop::EventLoop()
    : epoll_(::epoll_create1(EPOLL_CLOEXEC)), wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLET;
  event.data.u64 = static_cast<uint64_t>(wake_.get());
  if (!epoll_ || !wake_ || ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wake_.get(), &event) != 0) {
    std::abort();
  }
}

EventLoop::~EventLoop() = default;

void EventLoop::run() {
  while (!stopped_) {
    run_once(base::Milliseconds(60'000));
  }
}

int EventLoop::wait_milliseconds(base::Milliseconds at_most) const {
  if (!ready_.empty() || stopped_) {
    return 0;
  }
  if (timers_.empty()) {
    return static_cast<int>(at_most.count());
  }
  const auto left = timers_.begin()->first - std::chrono::steady_clock::now();
  // Rounded up, or the loop would spin through the last fraction of a millisecond.
  const auto rounded = std::chrono::ceil<base::Milliseconds>(left);
  return static_cast<int>(std::clamp(rounded, base::Milliseconds(0), at_most).count());
}

void EventLoop::run_once(base::Milliseconds at_most) {
  std::array<epoll_event, 64> events;
  const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()),
                                 wait_milliseconds(at_most));
  for (int i = 0; i < count; ++i) {
    const uint64_t key = events.at(static_cast<size_t>(i)).data.u64;
    const uint32_t what = events.at(static_cast<size_t>(i)).events;
    const int fd = static_cast<int>(key & 0xFFFFFFFFU);
    if (fd == wake_.get()) {
      continue;  // edge-triggered: its count need not be read
    }
    const auto matches = [&] {
      const auto found = watches_.find(fd);
      return found != watches_.end() && (found->second.generation & 0xFFFFFFFFU) == key >> 32U
                 ? &found->second
                 : nullptr;
    };
    // Each callback may change the table, so it is looked up again.
    bool is_heard = false;
    if ((what & (EPOLLIN | EPOLLHUP | EPOLLERR | EPOLLRDHUP)) != 0) {
      if (Watch* watch = matches(); watch != nullptr && watch->on_read) {
        is_heard = true;
        std::exchange(watch->on_read, nullptr)();
      }
    }
    if ((what & (EPOLLOUT | EPOLLHUP | EPOLLERR)) != 0) {
      if (Watch* watch = matches(); watch != nullptr && watch->on_write) {
        is_heard = true;
        std::exchange(watch->on_write, nullptr)();
      }
    }
    // A waiter that was just woken mostly waits again, so only what fires for nobody is taken back.
    if (Watch* watch = matches(); watch != nullptr && !is_heard) {
      update(fd, *watch);
    }
  }
  run_timers();
  std::vector<std::function<void()>> posted;
  {
    const std::lock_guard lock(posted_mutex_);
    posted.swap(posted_);
  }
  for (const auto& work : posted) {
    work();
  }
  for (const auto handle : std::exchange(ready_, {})) {
    handle.resume();
  }
}

void EventLoop::run_timers() {
  const auto now = std::chrono::steady_clock::now();
  while (!timers_.empty() && timers_.begin()->first <= now) {
    const auto first = timers_.begin();
    const auto callback = std::move(first->second.callback);
    timer_index_.erase(first->second.id);
    timers_.erase(first);
    callback();
  }
}

void EventLoop::post(std::function<void()> work) {
  {
    const std::lock_guard lock(posted_mutex_);
    posted_.push_back(std::move(work));
    if (posted_.size() > 1) {
      return;  // the first one's wake is still to be seen
    }
  }
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t size = ::write(wake_.get(), &one, sizeof one);
}

void EventLoop::resume_soon(std::coroutine_handle<> handle) { ready_.push_back(handle); }

EventLoop::TimerId EventLoop::add_timer(base::SteadyTime time, std::function<void()> callback) {
  const TimerId id = ++last_timer_;
  timer_index_[id] = timers_.emplace(time, Timer{id, std::move(callback)});
  return id;
}

void EventLoop::remove_timer(TimerId id) {
  const auto found = timer_index_.find(id);
  if (found != timer_index_.end()) {
    timers_.erase(found->second);
    timer_index_.erase(found);
  }
}

void EventLoop::watch(int fd, Direction direction, std::function<void()> callback) {
  Watch& watch = watches_[fd];
  if (watch.generation == 0) {
    watch.generation = ++last_generation_;
  }
  (direction == Direction::read ? watch.on_read : watch.on_write) = std::move(callback);
  update(fd, watch);
}

void EventLoop::unwatch(int fd, Direction direction) {
  // What epoll was told is left as it is: a next event without a waiter corrects it, so that a
  // connection that waits again and again costs no epoll_ctl.
  const auto found = watches_.find(fd);
  if (found != watches_.end()) {
    (direction == Direction::read ? found->second.on_read : found->second.on_write) = nullptr;
  }
}

void EventLoop::forget(int fd) {
  const auto found = watches_.find(fd);
  if (found == watches_.end()) {
    return;
  }
  if (found->second.registered != 0) {
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  }
  watches_.erase(found);
}

void EventLoop::update(int fd, Watch& watch) {
  const uint32_t wanted = (watch.on_read ? uint32_t{EPOLLIN | EPOLLRDHUP} : 0U) |
                          (watch.on_write ? uint32_t{EPOLLOUT} : 0U);
  if (wanted == watch.registered) {
    return;
  }
  epoll_event event{};
  event.events = wanted;
  event.data.u64 = (watch.generation << 32U) | static_cast<uint32_t>(fd);
  const int operation = watch.registered == 0 ? EPOLL_CTL_ADD
                        : wanted == 0         ? EPOLL_CTL_DEL
                                              : EPOLL_CTL_MOD;
  if (::epoll_ctl(epoll_.get(), operation, fd, &event) == 0) {
    watch.registered = wanted;
    return;
  }
  if (errno == EPERM && wanted != 0) {
    // A regular file or folder is always ready.
    post([this, fd, generation = watch.generation] {
      const auto found = watches_.find(fd);
      if (found == watches_.end() || found->second.generation != generation) {
        return;
      }
      const auto on_read = std::exchange(found->second.on_read, nullptr);
      const auto on_write = std::exchange(found->second.on_write, nullptr);
      if (on_read) {
        on_read();
      }
      if (on_write) {
        on_write();
      }
    });
    return;
  }
  std::abort();  // a descriptor that is not open: a bug of the caller
}

bool EventLoop::WaitAwaiter::start(std::coroutine_handle<> handle, Cancellation* cancellation) {
  if (cancellation != nullptr && cancellation->requested()) {
    wake_ = Wake::cancelled;
    return false;
  }
  waiting_ = true;
  handle_ = handle;
  cancellation_ = cancellation;
  if (fd_ >= 0) {
    loop_.watch(fd_, direction_, [this] { end(Wake::ready); });
  }
  if (!deadline_.is_never()) {
    timer_ = loop_.add_timer(deadline_.time(), [this] {
      timer_ = 0;
      end(Wake::deadline);
    });
  }
  if (cancellation != nullptr) {
    on_cancel_ = cancellation->add([this] {
      on_cancel_.reset();
      end(Wake::cancelled);
    });
  }
  return true;
}

void EventLoop::WaitAwaiter::end(Wake wake) {
  wake_ = wake;
  take_back();
  // Resuming here and now keeps the latency of one readiness to one turn; a cancelled wait is
  // resumed on the next turn, since the canceller may be inside the coroutine's own caller.
  if (wake == Wake::cancelled) {
    loop_.resume_soon(handle_);
  } else {
    handle_.resume();
  }
}

void EventLoop::WaitAwaiter::take_back() {
  if (!waiting_) {
    return;
  }
  waiting_ = false;
  if (fd_ >= 0) {
    loop_.unwatch(fd_, direction_);
  }
  if (timer_ != 0) {
    loop_.remove_timer(timer_);
  }
  if (on_cancel_) {
    cancellation_->remove(*on_cancel_);
    on_cancel_.reset();
  }
}

}  // namespace net
