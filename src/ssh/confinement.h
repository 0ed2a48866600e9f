// What sandbox-ssh may still do once it has its listening socket: a root with nothing but the
// folder of the gateway's socket in it, an empty network, few system calls; and each client's
// process less than that.
#pragma once

#include <string>

#include "base/error.h"

namespace ssh {

// The front. `gateway_socket`: a path; the one that it has from here on is returned. Not as root.
base::Result<std::string> confine_front(const std::string& gateway_socket);
// A process that serves one client: it makes no others and reaches none.
base::Result<void> confine_client();

}  // namespace ssh
