#include "ssh/transport.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>

#include <algorithm>

namespace ssh {
namespace {

using net::Deadline;
using std::chrono::steady_clock;

// The library reads 4 KiB at a time; so many, then the others have their turn.
constexpr int kTurnsMax = 64;

// OpenSSH's client leaves Nagle's algorithm on until it is signed in, and writes twice in a row in
// the key exchange: its second packet waits for the acknowledgement of the first, which the kernel
// would keep back for 40 ms (TCP_QUICKACK of tcp(7); does not last, and means nothing to a socket
// that is not TCP's).
void acknowledge_at_once(int socket) {
  const int on = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_QUICKACK, &on, sizeof on);
}

}  // namespace

Transport::Transport(net::EventLoop& loop, ssh_session session, const Options& options)
    : loop_(loop),
      session_(session),
      watched_(::fcntl(::ssh_get_fd(session), F_DUPFD_CLOEXEC, 0)),
      options_(options),
      activity_(loop),
      wake_(loop),
      last_heard_(steady_clock::now()),
      last_asked_(last_heard_) {
  ::ssh_set_blocking(session_, 0);
  ::ssh_set_counters(session_, nullptr, &counted_);
}

bool Transport::client_is_openssh() const {
  const char* const banner = ::ssh_get_clientbanner(session_);
  return banner != nullptr && std::string_view(banner).contains("-OpenSSH");
}

bool Transport::output_waits() const {
  return (::ssh_get_poll_flags(session_) & SSH_WRITE_PENDING) != 0;
}

void Transport::touched() {
  touched_ = true;
  wake_.notify();
}

void Transport::disconnect(const std::string& reason) {
  if (!ended_) {
    ::ssh_session_set_disconnect_message(session_, reason.c_str());
    ::ssh_disconnect(session_);
    ended_ = true;
    wake_.notify();
    activity_.notify();
  }
}

Task<void> Transport::run(OnMessage on_message) {
  ended_ = !watched_;
  while (!ended_) {
    touched_ = false;
    if (keys_exchanged_) {
      take_in(on_message);
    } else {
      exchange_keys();
    }
    if (!ended_ && (::ssh_get_status(session_) & (SSH_CLOSED | SSH_CLOSED_ERROR)) != 0) {
      ended_ = true;
    }
    activity_.notify();
    if (ended_) {
      break;
    }
    look_after_client();
    if (touched_ || more_) {
      co_await loop_.yield();
    } else {
      co_await wait();
    }
  }
  loop_.forget(watched_.get());
  watched_.reset();
}

void Transport::exchange_keys() {
  const int done = ::ssh_handle_key_exchange(session_);
  keys_exchanged_ = done == SSH_OK;
  ended_ = done == SSH_ERROR;
  touched_ = touched_ || keys_exchanged_;
}

void Transport::take_in(const OnMessage& on_message) {
  more_ = false;
  for (int turn = 0; turn < kTurnsMax && !ended_; ++turn) {
    while (Message message{::ssh_message_get(session_)}) {
      on_message(std::move(message));
      if (ended_) {
        return;
      }
    }
    int waiting = 0;
    if (::ioctl(::ssh_get_fd(session_), FIONREAD, &waiting) != 0 || waiting <= 0) {
      return;
    }
    last_heard_ = steady_clock::now();
  }
  more_ = true;
}

// Asked are all that have been silent, whether something goes out to them or not: who reads it
// cannot be told from who has vanished.
void Transport::look_after_client() {
  if (!keeps_alive_) {
    return;
  }
  const auto now = steady_clock::now();
  if (now - last_heard_ > options_.keep_alive * (kMissedMax + 1)) {
    ended_ = true;
    activity_.notify();
    return;
  }
  if (now - std::max(last_heard_, last_asked_) >= options_.keep_alive) {
    last_asked_ = now;
    // The first call may only take the answer to the one before.
    ::ssh_send_keepalive(session_);
    ::ssh_send_keepalive(session_);
  }
}

Task<void> Transport::wait() {
  const int socket = watched_.get();
  bool heard = false;
  if (!keeps_alive_) {
    acknowledge_at_once(socket);
  }
  loop_.watch(socket, net::EventLoop::Direction::read, [this, &heard] {
    heard = true;
    wake_.notify();
  });
  if (output_waits()) {
    loop_.watch(socket, net::EventLoop::Direction::write, [this] { wake_.notify(); });
  }
  const Deadline deadline =
      keeps_alive_ ? Deadline::at(std::max(last_heard_, last_asked_) + options_.keep_alive)
                   : Deadline::never();
  [[maybe_unused]] const auto wake = co_await wake_.wait(deadline);
  loop_.unwatch(socket, net::EventLoop::Direction::read);
  loop_.unwatch(socket, net::EventLoop::Direction::write);
  if (heard) {
    last_heard_ = steady_clock::now();
  }
}

}  // namespace ssh
