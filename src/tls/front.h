// Front: takes TLS connections and hands the server their bytes in the clear. A thread with a loop
// of its own, so that neither a handshake nor the ciphers of a large transfer hold up the gateway;
// the two share nothing but socket pairs. Owned by main. Bounds: kConnectionsMax connections,
// kHandshakesMax of them in their handshake (tls/acceptor.h).
#pragma once

#include <array>
#include <optional>
#include <string>
#include <thread>

#include "base/clock.h"
#include "base/file_stamp.h"
#include "base/log.h"
#include "net/task_group.h"
#include "tls/acceptor.h"

namespace tls {

class Front {
 public:
  // On the front's thread: the near end of a new connection, non-blocking, and its client's
  // address.
  using Handover = Acceptor::Handover;

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
  using Stamps = std::array<base::FileStamp, 2>;

  net::Task<void> watch_files();
  net::Task<void> finish();
  void reload();
  [[nodiscard]] Stamps look_at_files() const;

  base::Clock& clock_;
  base::Log& log_;
  Handover handover_;
  Files files_;
  Stamps stamps_{};
  net::EventLoop loop_;
  std::optional<Acceptor> acceptor_;
  net::TaskGroup accepting_;
  net::TaskGroup finishing_;
  std::jthread thread_;
};

}  // namespace tls
