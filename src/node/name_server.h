// The node's side of sandbox-dns (src/dns/server.h has the protocol): starts it, confined, and
// again when it ends; tells it the policies; opens what it resolved; and makes the sockets to the
// host's name servers, which it cannot; and passes on what was refused. While it is away queries
// wait in the sockets, which the node holds. Owned by the node; loop thread only. What it sends is
// hostile: checked, bounded, and never more than an allowed name's addresses come of it.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "net/event_loop.h"
#include "net/json_lines.h"
#include "net/task.h"
#include "net/task_group.h"
#include "node/network.h"
#include "node/refusals.h"

namespace node {

struct NameServerOptions {
  std::string helper;   // path of sandbox-dns
  uint32_t id = 0;      // its user and group on the host
  std::string servers;  // "192.0.2.1,192.0.2.2:5353"; empty: those of the host's resolv.conf
};

// An IPv4 address with a port, of those that names are asked of.
struct NameServerAddress {
  uint32_t address = 0;
  uint16_t port = 0;
  bool operator==(const NameServerAddress&) const = default;
};
base::Result<std::vector<NameServerAddress>> parse_name_servers(std::string_view text);
// Of the text of a resolv.conf: loopback ones too, since it is the host that asks them.
std::vector<NameServerAddress> name_servers_of(std::string_view resolv_conf);

class NameServer {
 public:
  // Fails for options that are wrong.
  static base::Result<std::unique_ptr<NameServer>> open(net::EventLoop& loop, Network& network,
                                                        NameServerOptions options, base::Log& log);
  NameServer(const NameServer&) = delete;
  NameServer& operator=(const NameServer&) = delete;
  ~NameServer() = default;

  // Told of what was refused.
  void on_refusal(RefusalListener listener) { refusal_listener_ = std::move(listener); }
  // From now on, until stop().
  void start();
  net::Task<void> stop();

 private:
  NameServer(net::EventLoop& loop, Network& network, NameServerOptions options, base::Log& log)
      : loop_(loop), network_(network), options_(std::move(options)), log_(log), group_(loop) {}

  void note_policy(const std::string& sandbox, const model::NetworkPolicy* policy);
  net::Task<void> keep_running();
  net::Task<base::Result<void>> serve_once();
  base::Result<void> send_policies();
  base::Result<void> take_line(const wire::json::Object& line);
  base::Result<void> take_refusal(wire::json::Reader& reader, const std::string& sandbox);
  base::Result<base::Fd> make_socket(wire::json::Reader& reader, int64_t server);
  base::Result<void> open_addresses(wire::json::Reader& reader,
                                    const std::vector<std::string>& addresses);

  net::EventLoop& loop_;
  Network& network_;
  NameServerOptions options_;
  base::Log& log_;
  std::vector<NameServerAddress> servers_;       // of the options
  std::map<std::string, std::string> policies_;  // by the sandbox's address
  std::unique_ptr<net::JsonLines> lines_;        // while it runs
  RefusalListener refusal_listener_;
  net::TaskGroup group_;
};

}  // namespace node
