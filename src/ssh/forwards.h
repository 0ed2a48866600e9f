// What a client has forwarded: connections into the sandbox (-L, -D, -W: channels of the client's)
// and ports inside that it listens on (-R: channels of ours). Owned by its connection; loop thread
// only. Bounds: Options::channels_max channels in all, kListenersMax ports.
#pragma once

#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <string>

#include "net/task_group.h"
#include "ssh/command_channel.h"

namespace ssh {

class Forwards {
 public:
  // `has_room`: whether the connection may have one more channel.
  Forwards(Transport& transport, Gateway& gateway, const Account& account,
           std::function<bool()> has_room)
      : transport_(transport),
        gateway_(gateway),
        account_(account),
        has_room_(std::move(has_room)),
        group_(transport.loop()) {}
  Forwards(const Forwards&) = delete;
  Forwards& operator=(const Forwards&) = delete;

  // A channel to HOST:PORT inside; answered when the connection is there or is not.
  void connect(Message message);
  // A request about the whole connection: a port to listen on inside, or not any more; others are
  // refused.
  void take_global(Message message);

  [[nodiscard]] size_t channels() const { return channels_; }

 private:
  struct Listener {
    Listener(std::string address_asked, net::EventLoop& loop)
        : address(std::move(address_asked)), group(loop) {}
    std::string address;  // as the client asked for it, which is how it knows it again
    int port = 0;
    net::TaskGroup group;
  };

  Task<void> serve_connect(Message message);
  // Begins those that wait, up to one whose answer takes time, which calls it again.
  void answer_globals();
  void stop_listening(const Message& message);
  Task<void> serve_listen(Message message);
  Task<void> accept_all(Listener& listener, GatewayStream& stream, std::string id);
  Task<void> serve_accepted(std::string address, int port, std::string target, std::string host,
                            int host_port);

  Transport& transport_;
  Gateway& gateway_;
  const Account& account_;
  std::function<bool()> has_room_;
  size_t channels_ = 0;
  std::list<Listener*> listeners_;
  std::deque<Message> globals_;  // behind the one that is being answered
  bool is_answering_ = false;
  net::TaskGroup group_;
};

}  // namespace ssh
