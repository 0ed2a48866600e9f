#include "base/file_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>

#include "base/sys.h"

namespace base {

Result<Fd> lock_file(const std::string& path, mode_t mode) {
  ASSIGN_OR_RETURN(Fd file, sys::open(path, O_RDWR | O_CREAT | O_NOFOLLOW, mode));
  if (::flock(file.get(), LOCK_EX | LOCK_NB) == 0) {
    return file;
  }
  if (errno == EWOULDBLOCK) {
    return fail(ErrorCode::conflict, path, " is locked by another process");
  }
  return fail_errno(errno, "lock ", path);
}

}  // namespace base
