#include "ssh/channel.h"

#include <algorithm>

namespace ssh {
namespace {

using base::ErrorCode;
using net::Deadline;

// One write to the library, which sends it in packets of at most 32 KiB.
constexpr size_t kWriteBytesMax = size_t{128} * 1024;

std::unexpected<base::Error> closed_error() {
  return base::fail(ErrorCode::connection_closed, "the channel is closed");
}

}  // namespace

Channel::Channel(Transport& transport, ssh_channel channel)
    : transport_(transport), channel_(channel) {
  callbacks_.userdata = this;
  callbacks_.channel_data_function = note_data;
  callbacks_.channel_signal_function = note_signal;
  callbacks_.channel_auth_agent_req_function = note_agent_request;
  ssh_callbacks_init(&callbacks_);
  ::ssh_add_channel_callbacks(channel_, &callbacks_);
}

Channel::~Channel() {
  // With its connection the library has freed it, and calls nobody any more.
  if (!transport_.ended()) {
    ::ssh_remove_channel_callbacks(channel_, &callbacks_);
    close();
    ::ssh_channel_free(channel_);
    transport_.touched();
  }
}

// Everything stays with the library until receive() takes it: so the client's window opens only as
// what came before has been taken. What comes as "error output" of a client means nothing.
int Channel::note_data(ssh_session /*session*/, ssh_channel /*channel*/, void* /*data*/,
                       uint32_t bytes, int is_error, void* self) {
  static_cast<Channel*>(self)->transport_.activity().notify();
  return is_error != 0 ? static_cast<int>(bytes) : 0;
}

void Channel::note_signal(ssh_session /*session*/, ssh_channel /*channel*/, const char* signal,
                          void* self) {
  if (auto& told = static_cast<Channel*>(self)->on_signal; told && signal != nullptr) {
    told(signal);
  }
}

void Channel::note_agent_request(ssh_session /*session*/, ssh_channel /*channel*/, void* self) {
  if (auto& told = static_cast<Channel*>(self)->on_agent_request) {
    told();
  }
}

bool Channel::closed() const {
  return is_closed_ || transport_.ended() || ::ssh_channel_is_closed(channel_) != 0;
}

Task<Result<void>> Channel::send(std::string_view bytes, bool is_error) {
  while (!bytes.empty()) {
    if (closed() || has_sent_end_) {
      co_return closed_error();
    }
    const size_t window = ::ssh_channel_window_size(channel_);
    int sent = 0;
    if (window > 0 && !transport_.output_waits()) {
      const auto size = static_cast<uint32_t>(std::min({bytes.size(), window, kWriteBytesMax}));
      sent = is_error ? ::ssh_channel_write_stderr(channel_, bytes.data(), size)
                      : ::ssh_channel_write(channel_, bytes.data(), size);
      if (sent < 0) {
        co_return closed_error();
      }
      bytes.remove_prefix(static_cast<size_t>(sent));
      transport_.touched();
    }
    if (bytes.empty()) {
      break;
    }
    // Without room, or while keys are exchanged anew: until the client has said something, or the
    // socket has taken something.
    const auto wake = co_await transport_.activity().wait(Deadline::never());
    if (wake == net::EventLoop::Wake::cancelled) {
      co_return base::fail(ErrorCode::cancelled, "the channel is given up");
    }
  }
  co_return Result<void>{};
}

Result<std::optional<std::string>> Channel::take() {
  if (is_closed_ || transport_.ended()) {
    return closed_error();
  }
  // All of it at once: the window is opened by what is taken, and must not be opened for a part.
  const int waiting = ::ssh_channel_poll(channel_, 0);
  if (waiting > 0) {
    std::string bytes(static_cast<size_t>(waiting), '\0');
    const int size = ::ssh_channel_read_nonblocking(channel_, bytes.data(),
                                                    static_cast<uint32_t>(bytes.size()), 0);
    transport_.touched();
    if (size > 0) {
      bytes.resize(static_cast<size_t>(size));
      return bytes;
    }
  }
  if (::ssh_channel_is_closed(channel_) != 0) {
    return closed_error();
  }
  if (::ssh_channel_is_eof(channel_) != 0) {
    return std::string();
  }
  if (waiting < 0) {
    return closed_error();
  }
  return std::nullopt;
}

Task<Result<std::string>> Channel::receive() {
  for (;;) {
    CO_ASSIGN_OR_RETURN(auto taken, take());
    if (taken) {
      co_return std::move(*taken);
    }
    const auto wake = co_await transport_.activity().wait(Deadline::never());
    if (wake == net::EventLoop::Wake::cancelled) {
      co_return base::fail(ErrorCode::cancelled, "the channel is given up");
    }
  }
}

void Channel::send_end() {
  if (!closed() && !has_sent_end_) {
    ::ssh_channel_send_eof(channel_);
    has_sent_end_ = true;
    transport_.touched();
  }
}

void Channel::send_exit_status(int status) {
  if (!closed()) {
    ::ssh_channel_request_send_exit_status(channel_, status);
    transport_.touched();
  }
}

void Channel::send_exit_signal(const std::string& signal) {
  if (!closed()) {
    ::ssh_channel_request_send_exit_signal(channel_, signal.c_str(), 0, "", "");
    transport_.touched();
  }
}

void Channel::close() {
  if (!closed()) {
    ::ssh_channel_close(channel_);
    transport_.touched();
  }
  is_closed_ = true;
}

}  // namespace ssh
