// The node's end of api/node-protocol.md: takes connections on the node's socket, turns lines into
// calls of the supervisor and the images, sends answers and changes back. Owned by the node; loop
// thread only. At most kConnectionsMax connections; a peer that does not read is dropped. What a
// connection asked for goes on when it ends.
#pragma once

#include <list>
#include <memory>
#include <string>

#include "base/log.h"
#include "net/event_loop.h"
#include "net/json_lines.h"
#include "net/listener.h"
#include "net/task_group.h"
#include "node/images.h"
#include "node/network.h"
#include "node/spec_json.h"
#include "node/supervisor.h"

namespace node {

// What `hello` says of the machine.
struct HostSize {
  std::string name;
  int64_t millicpus = 0;
  int64_t memory_mb = 0;
  int64_t storage_mb = 0;
};
HostSize read_host_size(int64_t storage_mb);

class ProtocolServer {
 public:
  ProtocolServer(net::EventLoop& loop, base::Fd socket, Supervisor& supervisor, Images& images,
                 const Network& network, HostSize host, base::Log& log);
  ProtocolServer(const ProtocolServer&) = delete;
  ProtocolServer& operator=(const ProtocolServer&) = delete;

  void run();              // starts to accept
  net::Task<void> stop();  // ends all connections and what they wait for

 private:
  struct Connection {
    Connection(net::EventLoop& loop, base::Fd fd) : lines(loop, std::move(fd)) {}
    net::JsonLines lines;
    bool watching = false;
  };
  using ConnectionPointer = std::shared_ptr<Connection>;
  using Answer = base::Result<wire::json::Object>;

  net::Task<void> accept_all();
  net::Task<void> serve(ConnectionPointer connection);
  net::Task<void> answer(ConnectionPointer connection, net::JsonLines::Line line);
  net::Task<Answer> call(ConnectionPointer connection, std::string operation,
                         wire::json::Object fields, std::vector<base::Fd> fds);
  net::Task<Answer> call_sandboxes(std::string operation, wire::json::Object fields);
  net::Task<Answer> call_images(std::string operation, wire::json::Object fields,
                                std::vector<base::Fd> fds);
  Answer hello() const;
  Answer open_gateway_socket(const wire::json::Object& fields, std::vector<base::Fd>& fds) const;
  void send(Connection& connection, wire::json::Object object, std::vector<base::Fd> fds = {});
  void broadcast(const Change& change);

  net::EventLoop& loop_;
  Supervisor& supervisor_;
  const Network& network_;
  Images& images_;
  HostSize host_;
  base::Log& log_;
  net::Listener listener_;
  std::list<ConnectionPointer> connections_;
  net::TaskGroup group_;
};

}  // namespace node
