// The options of sandbox-ssh. A new one is a row here and its use in main/ssh.cc; help, file,
// documents and man page follow (./dev docs).
#pragma once

#include "config/settings.h"

namespace config {

const Program& ssh_program();

}  // namespace config
