#include "server/body_source.h"

#include <sys/socket.h>

namespace server {

using wire::http::BodyKind;

namespace {

// What the agent's socket holds of a large body, so that the agent finds whole pieces at once and
// wakes the relay for many of them together. The kernel's own measure is 208 KiB.
constexpr int kAheadBytes = 1024 * 1024;

void send_ahead(const net::Stream& to) {
  ::setsockopt(to.fd(), SOL_SOCKET, SO_SNDBUF, &kAheadBytes, sizeof kAheadBytes);
}

}  // namespace

Result<BodySource> BodySource::open(Exchange& exchange) {
  const std::string* coding = exchange.request().find("content-encoding");
  ASSIGN_OR_RETURN(auto decoder, ContentDecoder::make(coding == nullptr ? "" : *coding,
                                                      exchange.coders().inflated_bytes_max));
  return BodySource(exchange, std::move(decoder));
}

std::optional<uint64_t> BodySource::known_rest() const {
  const bool is_known = decoder_ == nullptr && exchange_->request().body != BodyKind::chunked;
  return is_known ? std::optional(exchange_->reader().decoder().left()) : std::nullopt;
}

Task<Result<std::string_view>> BodySource::next(base::Milliseconds patience) {
  CO_RETURN_IF_ERROR(co_await exchange_->allow_body());
  auto piece = decoder_ == nullptr
                   ? co_await exchange_->reader().read_body(net::Deadline::after(patience))
                   : co_await next_coded(patience);
  if (!piece && piece.error().code == ErrorCode::deadline_exceeded) {
    co_return base::fail(ErrorCode::request_timeout, "the body stopped arriving");
  }
  co_return piece;
}

Task<Result<std::string_view>> BodySource::next_coded(base::Milliseconds patience) {
  for (;;) {
    auto decode = [this] { return decoder_->next(coded_); };
    CO_ASSIGN_OR_RETURN(const auto plain, co_await exchange_->code(decoder_->given(), decode));
    if (!plain.empty()) {
      co_return plain;
    }
    if (!coded_.empty()) {
      continue;
    }
    CO_ASSIGN_OR_RETURN(coded_,
                        co_await exchange_->reader().read_body(net::Deadline::after(patience)));
    if (coded_.empty()) {
      if (!decoder_->finished()) {
        co_return base::fail(ErrorCode::malformed, "the compressed body is not whole");
      }
      co_return std::string_view();
    }
  }
}

Task<Result<void>> BodySource::pump(net::Stream& to, Framing framing, base::Milliseconds patience) {
  if (decoder_ == nullptr) {
    if (exchange_->reader().decoder().left() > kAheadBytes) {
      send_ahead(to);
    }
    auto pumped =
        co_await pump_body(exchange_->client(), exchange_->reader(), to, framing, patience);
    co_return pumped;
  }
  net::HttpWriter writer(to, patience);
  for (;;) {
    CO_ASSIGN_OR_RETURN(const auto piece, co_await next_coded(patience));
    if (piece.empty()) {
      co_return co_await writer.finish_chunks();
    }
    CO_RETURN_IF_ERROR(co_await writer.write_chunk(piece));
  }
}

}  // namespace server
