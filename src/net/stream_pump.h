// Two connections that became byte streams (after an upgrade), each given what the other sends.
// Loop thread only. A reader that stands still holds up its own writer only; an idle pair holds no
// buffer, a busy one 16 KiB or a kernel pipe each way.
#pragma once

#include <string>
#include <string_view>

#include "net/stream.h"

namespace net {

// The last bytes of a stream, for who wants to know how it ended.
class StreamTail {
 public:
  static constexpr size_t kBytesMax = 512;
  void add(std::string_view bytes);
  [[nodiscard]] std::string_view bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

struct StreamEnd {
  Stream& stream;
  std::string read_ahead;      // came with the head and belongs to the other side
  StreamTail* tail = nullptr;  // of what it sends
};

// What the end of one direction means for the other.
enum class HalfClose {
  ends_both,  // then neither is read any more
  passed_on,  // it goes on, until its own end or until nothing came of it for kHalfOpenPatience
};

// Who has closed one direction and hears nothing in the other may be gone altogether, which a
// connection does not tell.
inline constexpr base::Milliseconds kHalfOpenPatience{std::chrono::minutes(10)};

// `patience` bounds each wait.
Task<void> pump_both(StreamEnd one, StreamEnd other, HalfClose half_close,
                     base::Milliseconds patience);

}  // namespace net
