#include "server/event_stream.h"

namespace server {

Task<Result<void>> EventStream::begin() {
  exchange_.mark_endless();
  auto head = exchange_.start_head(200);
  head.add("content-type", "text/event-stream").add("cache-control", "no-store").add_chunked();
  co_return co_await exchange_.begin_answer(std::move(head), 200);
}

Task<Result<void>> EventStream::write(std::string text) {
  text = base::cat(wire::http::chunk_head(text.size()), text, "\r\n");
  co_return co_await exchange_.client().write_all(text, kWritePatience);
}

Task<Result<void>> EventStream::send(std::string_view id, std::string_view type,
                                     std::string_view data) {
  std::string text;
  if (!id.empty()) {
    text += base::cat("id: ", id, "\n");
  }
  text += base::cat("event: ", type, "\ndata: ", data, "\n\n");
  co_return co_await write(std::move(text));
}

Task<Result<void>> EventStream::keep_alive() { co_return co_await write(": keep-alive\n\n"); }

Task<Result<void>> EventStream::end() {
  co_return co_await exchange_.client().write_all(wire::http::kLastChunk, kWritePatience);
}

}  // namespace server
