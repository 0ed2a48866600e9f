// sandbox-image: fetches and unpacks images for sandbox-node, which starts it confined with a
// socket as descriptor 3. `sandbox-image --remove PATH...` deletes trees and is run plainly.
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>

#include <string_view>

#include "base/sys.h"
#include "image/archive.h"
#include "image/channel.h"
#include "image/job.h"

namespace {

constexpr int kControlDescriptor = 3;

int remove_trees(int count, char** paths) {
  bool removed = true;
  for (int i = 0; i < count; ++i) {
    removed = base::sys::remove_tree(paths[i]).has_value() && removed;
  }
  return removed ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "--remove") {
    return remove_trees(argc - 2, argv + 2);
  }
  if (argc != 2 || std::string_view(argv[1]) != "--serve") {
    constexpr std::string_view kUsage = "sandbox-image is started by sandbox-node\n";
    (void)base::sys::write_all(2, kUsage);
    return 2;
  }
  // The node's death is this program's, and through its pid namespace that of all it started.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::fcntl(kControlDescriptor, F_SETFD, FD_CLOEXEC);  // not for skopeo
  image::use_byte_names();
  image::Channel channel{base::Fd(kControlDescriptor)};
  return image::run_job(channel) ? 0 : 1;
}
