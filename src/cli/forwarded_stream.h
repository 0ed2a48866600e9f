// One connection to a local port and the byte stream into the sandbox that it belongs to. Owned by
// the loop of `sandbox forward`; one thread; non-blocking. Bounds: kBufferBytes each way.
#pragma once

#include <poll.h>

#include <optional>
#include <vector>

#include "base/fd.h"
#include "cli/upgrade.h"

namespace cli {

class ForwardedStream {
 public:
  static constexpr size_t kBufferBytes = 256UL * 1024;

  // `local` is non-blocking.
  ForwardedStream(base::Fd local, Upgrade upgrade)
      : local_(std::move(local)), upgrade_(std::move(upgrade)) {}

  // Two entries.
  void add_waits(std::vector<pollfd>& waits) const;
  // TLS holds bytes that poll() does not see: step() has work at once.
  [[nodiscard]] bool has_more() const { return has_more_ && to_local_.size() < kBufferBytes; }
  // Moves what can be moved. True: both directions have ended. Errors: of the gateway, or
  // connection_closed where either side is gone.
  Result<bool> step();
  // In both directions.
  [[nodiscard]] int64_t bytes() const { return bytes_; }

 private:
  Result<void> read_local();
  Result<void> read_remote();
  Result<void> write_local();
  Result<void> write_remote();

  base::Fd local_;
  std::optional<Upgrade> upgrade_;  // until it was answered
  std::unique_ptr<Connection> remote_;
  std::string to_local_;
  std::string to_remote_;
  bool local_ended_ = false;
  bool remote_ended_ = false;
  bool local_told_ = false;  // that nothing more comes
  bool remote_told_ = false;
  bool has_more_ = false;
  int64_t bytes_ = 0;
};

}  // namespace cli
