// Server-Sent Events without I/O: bytes in, events out. One per connection. An event longer than
// the bound is an error; unknown fields and comments are skipped.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/error.h"

namespace cli {

using base::Result;

inline constexpr size_t kEventBytesMax = 1024UL * 1024;

struct StreamEvent {
  std::string id;    // the last one seen, also from earlier events
  std::string type;  // "message" when the stream names none
  std::string data;
};

class EventStreamDecoder {
 public:
  using Handler = std::function<Result<void>(const StreamEvent&)>;
  // Calls `handler` for each event that is whole now; its error ends the decoding.
  Result<void> feed(std::string_view bytes, const Handler& handler);

 private:
  Result<void> take_line(std::string_view line, const Handler& handler);

  std::string line_;
  StreamEvent event_;
  bool has_data_ = false;
  bool after_return_ = false;
};

}  // namespace cli
