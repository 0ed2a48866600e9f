// The name server of sandboxes with an allow-list: answers for allowed names only, and only after
// the node has opened what they resolved to. Everything it reads is hostile but the node's lines.
// One event loop; owned by main. It makes no socket and opens no file: all it has it was handed.
//
// With the node it speaks JSON, one object a line, over one unix socket (net::JsonLines).
// From the node:
//   {"sandbox":"10.201.0.5","network":"allow a.b *.c 10.0.0.0/8"}   that sandbox's policy
//   {"sandbox":"10.201.0.5"}                                        it has none any more
//   {"serve":true}, 2 or 3 descriptors: the UDP and the TCP socket to serve, and that by which the
//                   kernel tells what the firewall refused
//   {"call":N} or {"call":N,"error":"..."}                          the end of a call
// To the node:
//   {"call":N,"server":K,"stream":true|false}   a socket connected to the K-th name server (one
//                                               descriptor comes with the answer)
//   {"call":N,"sandbox":"10.201.0.5","name":"a.b","open":["192.0.2.7 60"]}   open for so long
//   {"refused":"10.201.0.5","name":"a.b","unreachable":false,"more":N}       that sandbox was
//   {"refused":"10.201.0.5","address":"192.0.2.7","protocol":6,"port":443,"more":N}   refused that,
//                                               and N others since it was last told; no call
//
// Bounded by kUnderWayMax queries, kUnderWayOfOneMax of a sandbox, a rate of each sandbox, and
// kConnectionsMax TCP connections; what is beyond is dropped, and clients ask again.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "dns/message.h"
#include "dns/refusals.h"
#include "model/network_policy.h"
#include "net/event_loop.h"
#include "net/json_lines.h"
#include "net/task.h"
#include "net/task_group.h"

namespace dns {

// How long an address stays open, and what clients hear: neither shorter than a program takes from
// the answer to its connection, nor for ever.
inline constexpr uint32_t kHoldSecondsMin = 10;
inline constexpr uint32_t kHoldSecondsMax = 3600;

// What of a server's reply a sandbox with that list may hear: addresses it may reach, with the time
// they hold. Private and unreachable addresses are left out unless the list names them itself; a
// name that has no others does not exist. `to_open` gets those that the list does not name.
Reply filter_reply(Reply reply, const model::AllowList& list, std::vector<Address>& to_open);

class Server {
 public:
  Server(net::EventLoop& loop, base::Fd control)
      : lines_(loop, std::move(control)), loop_(loop), refusals_(loop, lines_), group_(loop) {}
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Until the node closes its end; runs the loop.
  void run();

 private:
  struct Sandbox {
    model::AllowList list;
    size_t under_way = 0;
    size_t connections = 0;
    double allowance = 0;  // queries that it may send now
    base::SteadyTime counted{};
  };
  using SandboxPointer = std::shared_ptr<Sandbox>;
  struct Call {
    explicit Call(net::EventLoop& loop) : done(loop) {}
    net::Event done;
    bool ended = false;
    bool failed = false;
    base::Fd socket;
  };

  net::Task<void> serve();
  base::Result<void> take_line(net::JsonLines::Line line);
  void read_datagrams();
  void wait_for_datagrams();
  net::Task<void> answer_datagram(std::string bytes, uint32_t from, uint16_t port);
  net::Task<void> accept_streams();
  net::Task<void> serve_stream(base::Fd socket, SandboxPointer sandbox, uint32_t from);
  SandboxPointer find(uint32_t from) const;
  bool admit(Sandbox& sandbox);
  // The answer's bytes; empty: none.
  net::Task<std::string> answer(std::string_view bytes, uint32_t from, bool over_stream);
  net::Task<Reply> resolve(const Question& question, Sandbox& sandbox, uint32_t from);
  net::Task<base::Result<Reply>> ask_servers(const Question& question);
  net::Task<base::Result<Reply>> ask_one(const Question& question, int64_t server,
                                         bool over_stream);
  net::Task<base::Result<base::Fd>> call_node(wire::json::Object request);

  net::JsonLines lines_;
  net::EventLoop& loop_;
  base::Fd udp_;
  base::Fd tcp_;
  std::map<uint32_t, SandboxPointer> sandboxes_;
  std::map<int64_t, std::shared_ptr<Call>> calls_;
  int64_t last_call_ = 0;
  size_t under_way_ = 0;
  size_t connections_ = 0;
  Refusals refusals_;
  net::TaskGroup group_;
};

}  // namespace dns
