// The options of sandbox-gateway. A new one is a row here and its use in main/gateway.cc; help,
// file, documents and man page follow (./dev docs).
#pragma once

#include "config/settings.h"

namespace config {

const Program& gateway_program();

}  // namespace config
