#include "base/standard_streams.h"

#include <fcntl.h>
#include <unistd.h>

namespace base {

void hold_standard_streams() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (::fcntl(fd, F_GETFD) < 0) {
      // The lowest free number is this one. Without O_CLOEXEC: programs started need it as well.
      [[maybe_unused]] const int opened = ::open("/dev/null", O_RDONLY);
    }
  }
}

}  // namespace base
