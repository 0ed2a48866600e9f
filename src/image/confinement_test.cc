#include "image/confinement.h"

#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace image {
namespace {

bool refused(long result) { return result == -1 && errno == EPERM; }

// 0 when everything is as it should be, else which line is not.
int look_around() {
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || !prepare_to_unpack()) {
    return 1;
  }
  if (!refused(::syscall(SYS_bpf, 0, nullptr, 0)) || !refused(::syscall(SYS_keyctl, 0, 0, 0))) {
    return 2;
  }
  if (!refused(::mount("none", "/mnt", "tmpfs", 0, nullptr)) ||
      !refused(::syscall(SYS_setns, 0, 0))) {
    return 3;
  }
  return ::open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0 ? 0 : 4;
}

TEST(Confinement, unpacking_has_no_calls_but_those_of_a_sandbox) {
  EXPECT_EXIT(::_exit(look_around()), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace image
