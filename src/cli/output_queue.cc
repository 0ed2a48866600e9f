#include "cli/output_queue.h"

namespace cli {

void OutputQueue::add(Channel channel, std::string_view bytes) {
  if (bytes.empty() || (only_ != Channel::input && channel != only_)) {
    return;
  }
  bytes_ += bytes.size();
  if (!pieces_.empty() && pieces_.back().channel == channel) {
    pieces_.back().bytes += bytes;
  } else {
    pieces_.push_back({.channel = channel, .bytes = std::string(bytes)});
  }
}

Result<void> OutputQueue::flush() {
  while (!pieces_.empty()) {
    Piece& piece = pieces_.front();
    const std::string_view rest = std::string_view(piece.bytes).substr(piece.written);
    ASSIGN_OR_RETURN(const size_t written,
                     console_.write_some(piece.channel == Channel::error, rest));
    piece.written += written;
    bytes_ -= written;
    if (piece.written < piece.bytes.size()) {
      return {};
    }
    pieces_.pop_front();
  }
  return {};
}

void OutputQueue::add_waits(std::vector<pollfd>& waits) const {
  if (!pieces_.empty()) {
    waits.push_back({console_.fd(pieces_.front().channel == Channel::error), POLLOUT, 0});
  }
}

}  // namespace cli
