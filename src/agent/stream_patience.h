// How long streams of sessions bear silence. A value; the agent's own but in tests.
#pragma once

#include "base/clock.h"

namespace agent {

struct StreamPatience {
  // After it a sign of life is sent (a ping, a keep-alive line), so that proxies stay awake.
  base::Milliseconds silence{15'000};
  // Three pings without a sign of life, neither a byte from the client nor one taken by it.
  base::Milliseconds dead_peer{45'000};
};

}  // namespace agent
