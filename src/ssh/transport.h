// One SSH connection on the event loop: the library's session, made to wait for nothing by itself.
// Takes in what the client sends, hands over what it asks (messages), tells those who wait for room
// or for data, and notices a client that has vanished. Owned by the connection's process; loop
// thread only. The library holds at most one window (1.3 MB) of what a channel has not taken yet,
// and wait_room() keeps what is on its way out to one write.
#pragma once

#include <libssh/libssh.h>
#include <libssh/server.h>

#include <functional>
#include <memory>
#include <string>

#include "base/fd.h"
#include "net/task_group.h"
#include "ssh/options.h"

namespace ssh {

using base::Result;
using net::Task;

struct MessageFree {
  void operator()(ssh_message message) const { ::ssh_message_free(message); }
};
using Message = std::unique_ptr<ssh_message_struct, MessageFree>;

class Transport {
 public:
  using OnMessage = std::function<void(Message)>;

  // `session` has accepted a connection that is non-blocking; it is never freed: the process ends
  // with it.
  Transport(net::EventLoop& loop, ssh_session session, const Options& options);
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  // Until the connection has ended. Calls `on_message` for each request of the client's.
  Task<void> run(OnMessage on_message);

  [[nodiscard]] ssh_session session() const { return session_; }
  [[nodiscard]] net::EventLoop& loop() { return loop_; }
  [[nodiscard]] bool ended() const { return ended_; }
  // Something came from the client, or there is room again, or the end.
  [[nodiscard]] net::Event& activity() { return activity_; }
  // Messages to the client so far.
  [[nodiscard]] uint64_t messages_sent() const { return counted_.out_packets; }
  // By what it says of itself.
  [[nodiscard]] bool client_is_openssh() const;
  // What was written last has not all gone out.
  [[nodiscard]] bool output_waits() const;
  // To be called after whatever may have written to the client or read from it.
  void touched();
  // Is signed in: from now on a silent client is asked whether it is there.
  void start_keep_alive() { keeps_alive_ = true; }
  // Says why, and ends.
  void disconnect(const std::string& reason);

 private:
  void take_in(const OnMessage& on_message);
  void exchange_keys();
  void look_after_client();
  Task<void> wait();

  net::EventLoop& loop_;
  ssh_session session_;
  ssh_counter_struct counted_{};
  base::Fd watched_;  // a copy: the library closes its own when the connection ends
  const Options& options_;
  net::Event activity_;
  net::Event wake_;
  bool keys_exchanged_ = false;
  bool touched_ = true;
  bool more_ = false;  // to be read, without waiting for the socket
  bool ended_ = false;
  bool keeps_alive_ = false;
  base::SteadyTime last_heard_;
  base::SteadyTime last_asked_;
};

}  // namespace ssh
