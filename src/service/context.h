// What the use cases work with; made once in main, from the bottom up. References only.
#pragma once

#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "engine/engine.h"
#include "net/blocking_pool.h"
#include "service/audit.h"
#include "service/journal.h"
#include "service/live_sandbox.h"
#include "service/replicas.h"
#include "service/secret_box.h"
#include "service/store_clock.h"
#include "service/teams.h"
#include "service/telemetry.h"
#include "store/store.h"

namespace service {

struct Context {
  net::EventLoop& loop;
  base::Clock& clock;
  StoreClock& store_clock;
  base::Random& random;
  base::Log& log;
  store::Store& store;
  net::BlockingPool& pool;
  engine::Engine& engine;
  Journal& journal;
  Audit& audit;
  const SecretBox& secrets;
  Teams& teams;
  LiveSandboxes& live;
  Telemetry& telemetry;
  Replicas& replicas;
  bool local_images = false;  // "dir:/..." and "tar:/..." of the node's disk may be used

  // By the store's clock, as everything that is stored.
  [[nodiscard]] int64_t now_ms() const { return store_clock.now_ms(); }
};

}  // namespace service
