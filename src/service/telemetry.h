// Telemetry: how long sandboxes take to be ready and commands to end, and why they fail. Observed
// by the use cases, shown by server/. Owned by main; loop thread only; bounded by kReasonsMax.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/histogram.h"
#include "service/live_sandbox.h"

namespace service {

class Telemetry {
 public:
  // A reason comes from the engine: so many of them count apart.
  static constexpr size_t kReasonsMax = 40;
  static constexpr size_t kKinds = 5;  // of commands, as in CommandKind

  // Its times are set.
  void became_ready(const SandboxRow& row);
  void failed(std::string_view reason);
  void command_ended(size_t kind, base::Milliseconds took) { commands_.at(kind).observe(took); }

  [[nodiscard]] const base::Histogram& creates() const { return creates_; }
  [[nodiscard]] const base::Histogram& queues() const { return queues_; }
  [[nodiscard]] const base::Histogram& pulls() const { return pulls_; }
  [[nodiscard]] const base::Histogram& starts() const { return starts_; }
  [[nodiscard]] const base::Histogram& commands(size_t kind) const { return commands_.at(kind); }
  [[nodiscard]] const std::map<std::string, uint64_t, std::less<>>& failures() const {
    return failures_;
  }

 private:
  base::Histogram creates_;
  base::Histogram queues_;
  base::Histogram pulls_;
  base::Histogram starts_;
  std::array<base::Histogram, kKinds> commands_{};
  std::map<std::string, uint64_t, std::less<>> failures_;
};

}  // namespace service
