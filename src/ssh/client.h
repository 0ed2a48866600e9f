// One client's connection from its first byte to its end, in a process of its own (front.h): keys,
// login, channels. Its process ends with it.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <string>

#include "base/fd.h"
#include "base/log.h"
#include "ssh/command_channel.h"
#include "ssh/forwards.h"

namespace ssh {

// Who is there: a connection, and what is known of it.
struct Arrival {
  base::Fd socket;     // non-blocking
  std::string remote;  // the client's address
  std::string token;   // of one that came through the gateway, which needs no user name
};

// What its process tells the front.
enum class Report : char { signed_in = 'a', refused = 'r' };

class Client {
 public:
  Client(net::EventLoop& loop, const Options& options, base::Log& log, ssh_bind bind,
         Arrival arrival, base::Fd report);
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // Until it has ended.
  Task<void> run();

 private:
  void take(Message message);
  void take_channel_request(Message message);
  void take_open(Message message);
  void begin_login(Message message);
  Task<void> login(Message message, std::string token);
  Task<void> refuse(Message message, std::string reason);
  Task<void> hold_connection(GatewayStream held);
  Task<void> serve_session(ssh_channel channel);
  Task<void> limit_login_time();
  void say(Report what);
  [[nodiscard]] bool has_room() const;

  net::EventLoop& loop_;
  const Options& options_;
  base::Log& log_;
  Gateway gateway_;
  Arrival arrival_;
  base::Fd report_;
  Account account_;
  std::unique_ptr<Transport> transport_;
  bool login_begun_ = false;
  bool signed_in_ = false;
  std::list<CommandChannel*> sessions_;
  std::unique_ptr<Forwards> forwards_;
  net::TaskGroup group_;
};

}  // namespace ssh
