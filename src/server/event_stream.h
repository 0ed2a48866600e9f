// Server-Sent Events: one answer that goes on until its source ends or the client is gone. On the
// stack of a handler. Loop thread only; buffers nothing.
#pragma once

#include <string_view>

#include "server/exchange.h"

namespace server {

class EventStream {
 public:
  explicit EventStream(Exchange& exchange) : exchange_(exchange) {}

  Task<Result<void>> begin();
  // `id` may be empty. `data` is one line (JSON).
  Task<Result<void>> send(std::string_view id, std::string_view type, std::string_view data);
  Task<Result<void>> keep_alive();
  Task<Result<void>> end();

 private:
  Task<Result<void>> write(std::string text);

  Exchange& exchange_;
};

}  // namespace server
