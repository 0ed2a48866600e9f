#include "cli/event_stream.h"

namespace cli {

Result<void> EventStreamDecoder::feed(std::string_view bytes, const Handler& handler) {
  for (const char c : bytes) {
    const bool second_of_pair = after_return_ && c == '\n';
    after_return_ = c == '\r';
    if (second_of_pair) {
      continue;
    }
    if (c == '\n' || c == '\r') {
      const std::string line = std::exchange(line_, {});
      RETURN_IF_ERROR(take_line(line, handler));
      continue;
    }
    line_ += c;
    if (line_.size() + event_.data.size() > kEventBytesMax) {
      return base::fail(base::ErrorCode::body_too_large, "an event of the gateway is too long");
    }
  }
  return {};
}

Result<void> EventStreamDecoder::take_line(std::string_view line, const Handler& handler) {
  if (line.empty()) {
    if (!std::exchange(has_data_, false)) {
      event_.type.clear();
      return {};
    }
    StreamEvent event = event_;
    event.type = event.type.empty() ? "message" : event.type;
    event_.type.clear();
    event_.data.clear();
    return handler(event);
  }
  const size_t colon = line.find(':');
  const std::string_view name = line.substr(0, colon);
  std::string_view value = colon == line.npos ? std::string_view{} : line.substr(colon + 1);
  if (value.starts_with(' ')) {
    value.remove_prefix(1);
  }
  if (name == "data") {
    event_.data += base::cat(has_data_ ? "\n" : "", value);
    has_data_ = true;
  } else if (name == "id") {
    event_.id = value;
  } else if (name == "event") {
    event_.type = value;
  }
  return {};
}

}  // namespace cli
