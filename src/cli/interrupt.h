// Ctrl-C, SIGTERM, SIGHUP and SIGQUIT as a descriptor to poll, so that whatever waits can stop in
// order (cancel the remote command, delete a temporary file or sandbox). Owned by main; made before
// any thread starts. One signal is pending until taken; nothing here fails after open().
#pragma once

#include "base/error.h"
#include "base/fd.h"

namespace cli {

using base::Result;

class Interrupt {
 public:
  // Blocks the signals in this process and ignores SIGPIPE.
  static Result<Interrupt> open();
  // Never fires: for tests.
  Interrupt() = default;

  // Readable while a signal is pending; -1 when none can come.
  [[nodiscard]] int fd() const { return fd_.get(); }
  // The number of the first signal that arrived since the last clear(), or 0.
  int signal();
  void clear() { signal_ = 0; }
  // Error of code cancelled when a signal arrived.
  Result<void> check();
  // Waits until `fd` has one of `events` (POLLIN, POLLOUT); cancelled when a signal arrives first.
  Result<void> wait_for(int fd, short events);
  // The same for at most that long, never below nothing: whether it has.
  Result<bool> wait_for(int fd, short events, int milliseconds);
  // Waits that long; cancelled when a signal arrives first.
  Result<void> sleep_ms(int milliseconds);

 private:
  base::Fd fd_;
  int signal_ = 0;
};

}  // namespace cli
