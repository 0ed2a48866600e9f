#include "server/body_pump.h"

#include <algorithm>

namespace server {
namespace {

// Read ahead where the next chunk's head is looked for: what comes with it is copied, and the rest
// of a large chunk is not.
constexpr size_t kChunkHeadReadBytes = 512;
// No client has to take a chunk much larger than this, whatever the sender says.
constexpr uint64_t kSplicedBytesMax = uint64_t{16} * 1024 * 1024;
constexpr std::string_view kChunkEnd = "\r\n";

class BodyPump {
 public:
  BodyPump(net::Stream& from, net::HttpReader& reader, net::Stream& to, Framing framing,
           base::Milliseconds patience)
      : from_(from),
        reader_(reader),
        to_(to),
        chunked_(framing == Framing::chunked),
        patience_(patience) {}

  Task<Result<void>> run() {
    while (!reader_.body_finished()) {
      std::string_view piece;
      if (!can_splice()) {
        const size_t room = reader_.decoder().between_chunks() ? kChunkHeadReadBytes
                                                               : net::HttpReader::kBodyReadBytes;
        CO_ASSIGN_OR_RETURN(piece,
                            co_await reader_.read_body(net::Deadline::after(patience_), room));
      }
      if (can_splice()) {
        CO_RETURN_IF_ERROR(co_await splice(piece));
      } else if (!piece.empty()) {
        CO_RETURN_IF_ERROR(co_await copy(piece));
      }
    }
    if (chunked_) {
      CO_RETURN_IF_ERROR(co_await to_.write_all(wire::http::kLastChunk, patience_));
    }
    co_return Result<void>{};
  }

 private:
  [[nodiscard]] bool can_splice() {
    return reader_.decoder().left() > kSpliceBytesMin && !reader_.has_buffered();
  }

  Task<Result<void>> copy(std::string_view piece) {
    if (!chunked_) {
      co_return co_await to_.write_all(piece, patience_);
    }
    const std::string head = wire::http::chunk_head(piece.size());
    co_return co_await to_.write_all(head, piece, kChunkEnd, patience_);
  }

  // `piece` and the known rest of the current length or chunk, which becomes one chunk.
  Task<Result<void>> splice(std::string_view piece) {
    const uint64_t size = std::min(reader_.decoder().left(), kSplicedBytesMax);
    const std::string head = chunked_ ? wire::http::chunk_head(piece.size() + size) : "";
    CO_RETURN_IF_ERROR(co_await to_.write_more(head, piece, patience_));
    CO_ASSIGN_OR_RETURN(const uint64_t moved, co_await pipe_.move(from_, to_, size, patience_));
    reader_.decoder().skip(moved);
    if (moved < size) {
      co_return base::fail(ErrorCode::connection_closed, "the connection ended inside a body");
    }
    co_return co_await to_.write_all(chunked_ ? kChunkEnd : "", patience_);
  }

  net::Stream& from_;
  net::HttpReader& reader_;
  net::Stream& to_;
  bool chunked_;
  base::Milliseconds patience_;
  net::SplicePipe pipe_;
};

}  // namespace

Task<Result<void>> pump_body(net::Stream& from, net::HttpReader& reader, net::Stream& to,
                             Framing framing, base::Milliseconds patience) {
  BodyPump pump(from, reader, to, framing, patience);
  co_return co_await pump.run();
}

}  // namespace server
