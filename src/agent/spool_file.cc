#include "agent/spool_file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/random.h"
#include "base/text.h"

namespace agent {

base::Fd open_spool_file(int folder) {
  const int place = folder >= 0 ? folder : AT_FDCWD;
  const char* path = folder >= 0 ? "." : "/tmp";
  base::Fd file(::openat(place, path, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!file && (errno == EOPNOTSUPP || errno == EISDIR)) {
    base::KernelRandom random;
    const std::string name = base::cat(path, "/.", base::new_id(random, "output"));
    file = base::Fd(
        ::openat(place, name.c_str(), O_CREAT | O_EXCL | O_RDWR | O_NOFOLLOW | O_CLOEXEC, 0600));
    ::unlinkat(place, name.c_str(), 0);
  }
  // Where the file system copies on write, a ring would need room to overwrite itself.
  int flags = 0;
  if (file && ::ioctl(file.get(), FS_IOC_GETFLAGS, &flags) == 0) {
    flags |= FS_NOCOW_FL;
    ::ioctl(file.get(), FS_IOC_SETFLAGS, &flags);
  }
  return file;
}

}  // namespace agent
