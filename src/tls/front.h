// Front: takes TLS connections and hands the server their bytes in the clear. A thread with a loop
// of its own, so that neither a handshake nor the ciphers of a large transfer hold up the gateway;
// the two share nothing but socket pairs. Owned by main. Bounds: kConnectionsMax connections,
// kHandshakesMax of them in their handshake, for at most kHandshakePatience.
#pragma once

#include <array>
#include <functional>
#include <list>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "net/listener.h"
#include "net/stream.h"
#include "net/task_group.h"
#include "tls/context.h"

namespace tls {

class Front {
 public:
  // On the front's thread: the near end of a new connection, non-blocking, and its client's
  // address.
  using Handover = std::function<void(base::Fd plain, std::string remote)>;

  Front(base::Clock& clock, base::Log& log, Handover handover);
  Front(const Front&) = delete;
  Front& operator=(const Front&) = delete;
  // Gives what the server has written a moment to arrive, then ends every connection.
  ~Front();

  // Loads the pair, binds, starts the thread; the port. Once.
  base::Result<uint16_t> listen(const std::string& address, int backlog, Files files);
  // No new connections; those that are there go on. Any thread.
  void stop_accepting();

 private:
  struct Stamp {
    int64_t changed_ns = 0;
    uint64_t inode = 0;
    int64_t size = -1;
    bool operator==(const Stamp&) const = default;
  };
  using Stamps = std::array<Stamp, 2>;
  struct Handshake {
    int socket = -1;
  };

  net::Task<void> accept_all();
  net::Task<void> watch_files();
  net::Task<void> serve(base::Fd socket);
  net::Task<SslPointer> shake_hands(net::Stream& client);
  net::Task<bool> speaks_tls(net::Stream& client, net::Deadline deadline);
  net::Task<void> finish();
  void reload();
  [[nodiscard]] Stamps look_at_files() const;

  base::Clock& clock_;
  base::Log& log_;
  Handover handover_;
  Files files_;
  Stamps stamps_{};
  std::shared_ptr<Context> context_;
  std::vector<char> scratch_;
  std::list<Handshake> handshakes_;  // the oldest first
  net::EventLoop loop_;
  std::optional<net::Listener> listener_;
  net::TaskGroup accepting_;
  net::TaskGroup connections_;
  net::TaskGroup finishing_;
  std::jthread thread_;
};

}  // namespace tls
