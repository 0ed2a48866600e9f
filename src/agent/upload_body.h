// The body of an upload in large pieces, as fast as its taker works it off. Others get their turn
// between two pieces.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "net/http.h"

namespace agent {

using base::Result;

// What pieces lie in: a piece stays as it is until `count` - 1 more have been taken.
class PieceBuffers {
 public:
  PieceBuffers(size_t count, const wire::http::Request& request);
  // The one used longest ago, made when it is first used.
  std::span<char> next();

 private:
  size_t bytes_;
  std::vector<std::unique_ptr<char[]>> buffers_;
  size_t last_ = 0;
};

// Sends "100 Continue" where the client waits for it. `take` gets every byte in order; its error
// ends the receiving.
net::Task<Result<void>> receive_body(net::Stream& client, net::HttpReader& reader,
                                     const wire::http::Request& request, PieceBuffers& buffers,
                                     const std::function<Result<void>(std::string_view)>& take);

}  // namespace agent
