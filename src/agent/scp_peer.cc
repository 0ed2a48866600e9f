#include "agent/scp_peer.h"

#include <errno.h>
#include <unistd.h>

#include <algorithm>

#include "agent/scp_message.h"

namespace agent::scp {
namespace {

constexpr size_t kBufferBytes = size_t{256} * 1024;
constexpr char kAgrees = '\0';

}  // namespace

Peer::Peer(int input, int output)
    : input_(input),
      output_(output),
      buffer_(std::make_unique_for_overwrite<char[]>(kBufferBytes)) {}

bool Peer::fill() {
  ssize_t count = 0;
  do {
    count = lost_ ? 0 : ::read(input_, buffer_.get(), kBufferBytes);
  } while (count < 0 && errno == EINTR);
  begin_ = 0;
  end_ = static_cast<size_t>(std::max<ssize_t>(count, 0));
  lost_ = lost_ || count <= 0;
  return !lost_;
}

std::string_view Peer::read_some(size_t bytes_max) {
  if (begin_ == end_ && !fill()) {
    return {};
  }
  const size_t size = std::min(bytes_max, end_ - begin_);
  begin_ += size;
  return {buffer_.get() + begin_ - size, size};
}

bool Peer::read_line(std::string& line) {
  line.clear();
  for (;;) {
    const std::string_view byte = read_some(1);
    if (byte.empty()) {
      return false;
    }
    if (byte.front() == '\n') {
      return true;
    }
    if (line.size() == kLineBytesMax) {
      lost_ = true;
      return false;
    }
    line += byte;
  }
}

bool Peer::write(std::string_view bytes) {
  while (!bytes.empty() && !lost_) {
    const ssize_t count = ::write(output_, bytes.data(), bytes.size());
    if (count >= 0) {
      bytes.remove_prefix(static_cast<size_t>(count));
    } else {
      lost_ = errno != EINTR;
    }
  }
  return !lost_;
}

bool Peer::is_acknowledged() {
  const std::string_view answer = read_some(1);
  if (answer.empty() || answer.front() == kAgrees) {
    return !answer.empty();
  }
  std::string line(answer);
  std::string rest;
  read_line(rest);
  const auto message = parse_message(line + rest);
  const bool goes_on = message && message->kind == Message::Kind::warning;
  lost_ = lost_ || !goes_on;
  note_error();
  return false;
}

void Peer::complain(std::string_view text) {
  note_error();
  write(warning_line(text));
}

}  // namespace agent::scp
