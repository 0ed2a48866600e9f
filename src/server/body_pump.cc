#include "server/body_pump.h"

namespace server {
namespace {

// The known rest of the current length or chunk, by splice.
Task<Result<void>> splice_rest(net::Stream& from, net::HttpReader& reader, net::Stream& to,
                               base::Milliseconds patience) {
  const uint64_t left = reader.decoder().left();
  CO_ASSIGN_OR_RETURN(const uint64_t moved, co_await net::splice_bytes(from, to, left, patience));
  reader.decoder().skip(moved);
  if (moved < left) {
    co_return base::fail(ErrorCode::connection_closed, "the connection ended inside a body");
  }
  co_return Result<void>{};
}

}  // namespace

Task<Result<void>> pump_body(net::Stream& from, net::HttpReader& reader, net::Stream& to,
                             Framing framing, base::Milliseconds patience) {
  while (!reader.body_finished()) {
    const bool is_large = reader.decoder().left() > kSpliceBytesMin;
    if (framing == Framing::plain && is_large && !reader.has_buffered()) {
      CO_RETURN_IF_ERROR(co_await splice_rest(from, reader, to, patience));
      continue;
    }
    CO_ASSIGN_OR_RETURN(const auto piece,
                        co_await reader.read_body(net::Deadline::after(patience)));
    if (piece.empty()) {
      break;
    }
    if (framing == Framing::plain) {
      CO_RETURN_IF_ERROR(co_await to.write_all(piece, patience));
      continue;
    }
    const std::string head = wire::http::chunk_head(piece.size());
    CO_RETURN_IF_ERROR(co_await to.write_all(head, piece, patience));
    CO_RETURN_IF_ERROR(co_await to.write_all("\r\n", patience));
  }
  if (framing == Framing::chunked) {
    CO_RETURN_IF_ERROR(co_await to.write_all(wire::http::kLastChunk, patience));
  }
  co_return Result<void>{};
}

}  // namespace server
