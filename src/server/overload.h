// Overload: whether this gateway has more to do than it can, from signs that are true and cheap:
// how late the loop is, how many descriptors are open, how much memory the host has left. What may
// then be refused goes by what it would cost those who are served already: first new sandboxes and
// large uploads, then what is not a request into a sandbox, at last those; health and figures
// never. Owned by main; loop thread only.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "base/histogram.h"
#include "net/event_loop.h"
#include "net/task.h"

namespace server {

// What is refused first stands last.
enum class Work { health, inside, other, heavy };
// At each level the works behind it are refused, too.
enum class Pressure { none, heavy, other, inside };

// The signs.
struct Load {
  int64_t lag_ms = 0;  // the least of the last samples: how late the loop is again and again
  int64_t open_files = 0;
  int64_t files_max = 0;  // 0: not known
  int64_t memory_available = 0;
  int64_t memory_total = 0;  // 0: not known
};

// Pure. A level is left again only once its sign is a fifth below where it began.
Pressure pressure_of(const Load& load, Pressure before);
// Which is refused at which level.
bool is_refused(Work work, Pressure pressure);
std::string_view name(Work work);

class Overload {
 public:
  explicit Overload(net::EventLoop& loop) : loop_(loop) { lags_ms_.fill(0); }

  // overloaded (details.retry_after), counted.
  base::Result<void> check(Work work);
  // Looks again and again until it is cancelled. Spawned by main.
  net::Task<void> run();
  // For run(), and for tests: what was seen.
  void take(const Load& load) { pressure_ = pressure_of(load, pressure_); }

  [[nodiscard]] Pressure pressure() const { return pressure_; }
  [[nodiscard]] const Load& load() const { return load_; }
  [[nodiscard]] const base::Histogram& lags() const { return lags_; }
  [[nodiscard]] uint64_t refused(Work work) const { return refused_.at(static_cast<size_t>(work)); }

 private:
  static constexpr size_t kSamples = 8;
  void look_at_host();

  net::EventLoop& loop_;
  Pressure pressure_ = Pressure::none;
  Load load_;
  std::array<int64_t, kSamples> lags_ms_{};
  size_t next_sample_ = 0;
  base::Histogram lags_;
  std::array<uint64_t, 4> refused_{};
};

}  // namespace server
