// What the handlers work with; made in main. References only.
#pragma once

#include "base/log.h"
#include "base/random.h"
#include "server/metrics.h"
#include "service/images.h"
#include "service/sandboxes.h"

namespace server {

struct Application {
  net::EventLoop& loop;
  base::Log& log;
  base::Random& random;
  const service::Access& access;
  service::Sandboxes& sandboxes;
  service::Images& images;
  Metrics& metrics;
  uint64_t runs = 0;
};

}  // namespace server
