#include "jail/forked_process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <utility>

#include "base/sys.h"

namespace jail {

using base::Result;

ForkedProcess::ForkedProcess(ForkedProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, 0)), report_(std::move(other.report_)) {}

ForkedProcess::~ForkedProcess() { end(); }

int ForkedProcess::end() {
  int status = 0;
  if (const pid_t pid = std::exchange(pid_, 0); pid > 0) {
    ::kill(pid, SIGKILL);
    while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
  }
  return status;
}

Result<ForkedProcess> ForkedProcess::start(const std::function<void(base::Fd report)>& work) {
  ASSIGN_OR_RETURN(auto pipe, base::sys::make_pipe(O_NONBLOCK));
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) {
    return base::fail(base::ErrorCode::overloaded, "there is no process to be had");
  }
  if (pid == 0) {
    pipe.first.reset();
    if (::prctl(PR_SET_PDEATHSIG, SIGTERM) != 0 || ::getppid() != parent) {
      ::_exit(1);
    }
    work(std::move(pipe.second));
    ::_exit(1);
  }
  ForkedProcess process;
  process.pid_ = pid;
  process.report_ = std::move(pipe.first);
  return process;
}

}  // namespace jail
