#include "service/telemetry.h"

namespace service {

void Telemetry::became_ready(const SandboxRow& row) {
  creates_.observe(base::Milliseconds(row.ready_ms - row.created_ms));
  queues_.observe(base::Milliseconds(row.queued_ms));
  pulls_.observe(base::Milliseconds(row.pull_ms));
  starts_.observe(base::Milliseconds(row.start_ms));
}

void Telemetry::failed(std::string_view reason) {
  if (const auto found = failures_.find(reason); found != failures_.end()) {
    ++found->second;
    return;
  }
  ++failures_[std::string(failures_.size() < kReasonsMax ? reason : "other")];
}

}  // namespace service
