// What /metrics shows: the figures of all parts, collected when they are asked for.
#pragma once

#include <string>

#include "server/application.h"

namespace server {

// In the Prometheus text format. Never a sandbox, a caller or a token in a label; of teams at most
// kTeamsMax.
// `quotas`: nullptr if the store could not be asked; theirs are left out then.
std::string figures_text(const Application& application,
                         const service::Admission::Overview* quotas);

}  // namespace server
