// The line to the node: one JSON object a line each way, over the socket this program was started
// with. Blocking; the node's end closed means the node is gone, and so is this program's reason.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/fd.h"
#include "image/failure.h"
#include "wire/json.h"

namespace image {

inline constexpr size_t kLineBytesMax = 256 << 10;  // the node's bound for what it reads

class Channel {
 public:
  explicit Channel(base::Fd socket) : socket_(std::move(socket)) {}

  // The first message: descriptors with one byte.
  Result<std::vector<base::Fd>> receive_descriptors();
  Result<wire::json::Object> receive();
  Result<void> send(const wire::json::Object& message);

 private:
  base::Fd socket_;
  std::string buffer_;
};

}  // namespace image
