// The options of sandbox-node. A new one is a row here and its use in main/node.cc; help, file,
// documents and man page follow (./dev docs).
#pragma once

#include "config/settings.h"

namespace config {

const Program& node_program();

}  // namespace config
