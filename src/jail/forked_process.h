// A copy of this process that goes its own way, for what is to share nothing but its start with
// others of its kind. Single-threaded callers only: the copy is made with fork(2).
#pragma once

#include <sys/types.h>

#include <functional>

#include "base/error.h"
#include "base/fd.h"

namespace jail {

// Killed and reaped on destruction.
class ForkedProcess {
 public:
  ForkedProcess() = default;
  ForkedProcess(ForkedProcess&& other) noexcept;
  ForkedProcess& operator=(ForkedProcess&&) = delete;
  ~ForkedProcess();

  // Calls `work` in the copy, which gets the writing end of a pipe and must not return. The copy is
  // sent SIGTERM when this process ends. overloaded: there is no process to be had.
  static base::Result<ForkedProcess> start(const std::function<void(base::Fd report)>& work);

  // Kills it where it has not ended; how it ended, as waitpid(2) says it.
  int end();

  [[nodiscard]] pid_t pid() const { return pid_; }
  // The reading end; at its end the copy has ended, or has nothing more to say. Non-blocking.
  [[nodiscard]] int report() const { return report_.get(); }

 private:
  pid_t pid_ = 0;
  base::Fd report_;
};

}  // namespace jail
