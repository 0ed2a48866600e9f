// A session's output on its way to standard output and error, written as these have room, so that
// the loop around it goes on while somebody here reads slowly. Order is kept over both streams.
// Owned by a command; one thread. Bounded by whoever adds: nothing more once full().
#pragma once

#include <poll.h>

#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "cli/console.h"

namespace cli {

enum class Channel : char { input = 0, output = 1, error = 2 };

class OutputQueue {
 public:
  explicit OutputQueue(Console& console) : console_(console) {}

  // What goes to the other one is dropped.
  void show_only(Channel channel) { only_ = channel; }
  void add(Channel channel, std::string_view bytes);
  // Writes what there is room for now.
  Result<void> flush();
  [[nodiscard]] bool empty() const { return pieces_.empty(); }
  [[nodiscard]] bool full() const { return bytes_ >= kFullBytes; }
  // What to poll for while not empty.
  void add_waits(std::vector<pollfd>& waits) const;

 private:
  static constexpr size_t kFullBytes = 256UL * 1024;

  struct Piece {
    Channel channel;
    std::string bytes;
    size_t written = 0;
  };

  Console& console_;
  Channel only_ = Channel::input;  // both
  std::deque<Piece> pieces_;
  size_t bytes_ = 0;
};

}  // namespace cli
