// What the use cases work with; made once in main, from the bottom up. References only.
#pragma once

#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "engine/engine.h"
#include "net/blocking_pool.h"
#include "service/journal.h"
#include "service/live_sandbox.h"
#include "service/secret_box.h"
#include "service/team.h"
#include "store/store.h"

namespace service {

struct Context {
  net::EventLoop& loop;
  base::Clock& clock;
  base::Random& random;
  base::Log& log;
  store::Store& store;
  net::BlockingPool& pool;
  engine::Engine& engine;
  Journal& journal;
  const SecretBox& secrets;
  const Team& team;
  LiveSandboxes& live;

  [[nodiscard]] int64_t now_ms() const { return base::to_ms(clock.wall()); }
};

}  // namespace service
