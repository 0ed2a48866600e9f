// One channel of an SSH connection as two streams that coroutines read and write, bounded by the
// client's window and by what is on its way. Owned by the coroutine that serves it; loop thread
// only. At most one reader and one writer at a time.
#pragma once

#include <libssh/callbacks.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "ssh/transport.h"

namespace ssh {

class Channel {
 public:
  Channel(Transport& transport, ssh_channel channel);
  // Closes it, where that was not done.
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  [[nodiscard]] ssh_channel handle() const { return channel_; }
  [[nodiscard]] Transport& transport() { return transport_; }
  // The client has closed it, or the connection has ended.
  [[nodiscard]] bool closed() const;

  // All of the bytes, as the client takes them. connection_closed; cancelled.
  Task<Result<void>> send(std::string_view bytes, bool is_error = false);
  // What has come: nothing yet, or bytes, or an empty text at the end of the client's input.
  // connection_closed.
  Result<std::optional<std::string>> take();
  // The same, waited for; cancelled.
  Task<Result<std::string>> receive();
  // Nothing more of ours comes. Then how it ended, then the close.
  void send_end();
  void send_exit_status(int status);
  void send_exit_signal(const std::string& signal);
  void close();

  // "TERM", and the wish for an agent that is forwarded.
  std::function<void(std::string_view)> on_signal;
  std::function<void()> on_agent_request;

 private:
  static int note_data(ssh_session, ssh_channel, void*, uint32_t, int is_error, void* self);
  static void note_signal(ssh_session, ssh_channel, const char* signal, void* self);
  static void note_agent_request(ssh_session, ssh_channel, void* self);

  Transport& transport_;
  ssh_channel channel_;
  ssh_channel_callbacks_struct callbacks_{};
  bool has_sent_end_ = false;
  bool is_closed_ = false;  // by us
};

}  // namespace ssh
