// sandbox-dns: answers the sandboxes that have an allow-list for the names on it. Started by
// sandbox-node, confined, with a socket as descriptor 3.
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>

#include <string_view>

#include "base/sys.h"
#include "dns/confinement.h"
#include "dns/server.h"

namespace {

constexpr int kControlDescriptor = 3;

void complain(std::string_view text) { (void)base::sys::write_all(2, text); }

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 || std::string_view(argv[1]) != "--serve") {
    complain("sandbox-dns is started by sandbox-node\n");
    return 2;
  }
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::signal(SIGPIPE, SIG_IGN);
  if (!base::sys::set_nonblocking(kControlDescriptor)) {
    return 1;
  }
  net::EventLoop loop;
  dns::Server server(loop, base::Fd(kControlDescriptor));
  if (const auto confined = dns::confine(); !confined) {
    complain(base::cat("sandbox-dns: ", confined.error().message, "\n"));
    return 1;
  }
  server.run();
  ::_exit(0);  // what was under way ends with the node
}
