#include "agent/open_path.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/file_request.h"

namespace agent {

Result<base::Fd> open_path(int folder, const std::string& path, int flags) {
  open_how how{};
  how.flags = static_cast<uint64_t>(flags | O_CLOEXEC);
  how.resolve = RESOLVE_NO_MAGICLINKS;
  for (;;) {
    base::Fd file(static_cast<int>(::syscall(SYS_openat2, folder, path.c_str(), &how, sizeof how)));
    if (file) {
      return file;
    }
    if (errno != EINTR) {
      return std::unexpected(file_error(errno, path));
    }
  }
}

}  // namespace agent
