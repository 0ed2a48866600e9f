// BodySource: the client's body, its Content-Encoding taken off, piece by piece or straight into
// the agent's connection. On the stack of the handler; loop thread only. Holds one piece of 64 KiB
// and its decoder's window.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "server/body_pump.h"
#include "server/content_stream.h"

namespace server {

class BodySource {
 public:
  // not_supported for a coding that is not known.
  static Result<BodySource> open(Exchange& exchange);

  // The next piece, empty at the end; it holds until the next call. Tells the client first that it
  // may send. Errors: malformed, body_too_large (Coders),
  // request_timeout.
  Task<Result<std::string_view>> next(base::Milliseconds patience);
  // What next() has not given yet, to `to`, with the end of the body.
  Task<Result<void>> pump(net::Stream& to, Framing framing, base::Milliseconds patience);
  // How many bytes next() and pump() will still give; nullopt where only the end will tell.
  [[nodiscard]] std::optional<uint64_t> known_rest() const;

 private:
  BodySource(Exchange& exchange, std::unique_ptr<ContentDecoder> decoder)
      : exchange_(&exchange), decoder_(std::move(decoder)) {}
  Task<Result<std::string_view>> next_coded(base::Milliseconds patience);

  Exchange* exchange_;
  std::unique_ptr<ContentDecoder> decoder_;  // null: plain
  std::string_view coded_;                   // read and not decoded yet
};

}  // namespace server
