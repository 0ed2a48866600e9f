#include "image/channel.h"

#include <errno.h>
#include <sys/socket.h>

#include <array>

#include "base/sys.h"

namespace image {

Result<std::vector<base::Fd>> Channel::receive_descriptors() {
  char byte = 0;
  ASSIGN_OR_RETURN(auto received, base::sys::receive_with_fds(socket_.get(), {&byte, 1}));
  return std::move(received.fds);
}

Result<wire::json::Object> Channel::receive() {
  std::array<char, 64 << 10> bytes;
  while (!buffer_.contains('\n')) {
    const ssize_t count = ::recv(socket_.get(), bytes.data(), bytes.size(), 0);
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count <= 0 || buffer_.size() > kLineBytesMax) {
      return base::fail(ErrorCode::connection_closed, "the node is gone");
    }
    buffer_.append(bytes.data(), static_cast<size_t>(count));
  }
  const size_t end = buffer_.find('\n');
  auto object = wire::json::parse_object(std::string_view(buffer_).substr(0, end));
  buffer_.erase(0, end + 1);
  return object;
}

Result<void> Channel::send(const wire::json::Object& message) {
  const std::string line = wire::json::serialize(message) + "\n";
  if (line.size() > kLineBytesMax) {
    return fail_image(kInvalid, "the image's config is too large");
  }
  std::string_view rest = line;
  while (!rest.empty()) {
    const ssize_t count = ::send(socket_.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count <= 0) {
      return base::fail(ErrorCode::connection_closed, "the node is gone");
    }
    rest.remove_prefix(static_cast<size_t>(count));
  }
  return {};
}

}  // namespace image
