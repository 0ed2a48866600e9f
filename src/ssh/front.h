// The SSH front: listens, and gives each client a process of its own, so that what goes wrong with
// one client's bytes reaches no other's. Keeps a connection to the gateway, which tells it its host
// key and hands over clients that came through the API. Owned by main; loop thread only. Bounds:
// the options'.
#pragma once

#include <libssh/server.h>

#include <memory>
#include <string>
#include <unordered_map>

#include "base/log.h"
#include "jail/forked_process.h"
#include "net/json_lines.h"
#include "net/listener.h"
#include "ssh/client.h"
#include "ssh/logins.h"

namespace ssh {

class Front {
 public:
  // `listening`: the socket for clients.
  Front(net::EventLoop& loop, const Options& options, base::Log& log, base::Fd listening);
  Front(const Front&) = delete;
  Front& operator=(const Front&) = delete;

  void start();
  // Ends all connections.
  Task<void> stop();

 private:
  struct Served {
    std::string address;
    jail::ForkedProcess process;
  };

  Task<void> keep_to_gateway();
  Task<Result<void>> follow_gateway();
  Result<void> take_host_key(const wire::json::Object& line);
  void take_tunnel(net::JsonLines::Line line);
  Task<void> tell_dropped(net::JsonLines& lines);
  Task<void> accept_all();
  Task<void> receive(base::Fd socket, std::string address);
  void serve(Arrival arrival, Logins::Id id);
  void listen_to(Logins::Id id);
  void note_report(Logins::Id id);
  void drop(Logins::Id id);

  net::EventLoop& loop_;
  const Options& options_;
  base::Log& log_;
  net::Listener listener_;
  ssh_bind bind_ = nullptr;  // with the host key; nullptr: the gateway has not told it yet
  Logins logins_;
  Logins::Id last_id_ = 0;
  std::unordered_map<Logins::Id, Served> served_;
  std::unordered_map<Logins::Id, int> waiting_;  // sockets of those that have said nothing yet
  uint64_t dropped_ = 0;                         // not told to the gateway yet
  net::TaskGroup group_;
};

}  // namespace ssh
