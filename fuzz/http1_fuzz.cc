// HTTP/1.1 heads and bodies. Besides not crashing: the payload of a body must not depend on how
// its bytes arrive, since gateway and agent read the same bytes in different pieces.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>

#include "wire/http1.h"

namespace {

struct Outcome {
  bool failed = false;
  bool finished = false;
  size_t unused = 0;
  std::string payload;
  bool operator==(const Outcome&) const = default;
};

Outcome decode(const wire::http::Head& head, std::string_view body, size_t piece) {
  wire::http::BodyDecoder decoder(head);
  Outcome outcome;
  std::string pending;
  while (!decoder.finished() && !(body.empty() && pending.empty())) {
    const size_t size = std::min(piece, body.size());
    pending += body.substr(0, size);
    body.remove_prefix(size);
    while (!pending.empty() && !decoder.finished()) {
      const auto step = decoder.next(pending);
      if (!step) {
        return Outcome{.failed = true};
      }
      if (step->consumed == 0) {
        std::abort();  // no progress: a reader would spin
      }
      outcome.payload += step->payload;
      pending.erase(0, step->consumed);
    }
  }
  outcome.finished = decoder.end_of_input().has_value();
  outcome.unused = pending.size() + body.size();
  return outcome;
}

void check_body(const wire::http::Head& head, std::string_view body) {
  const Outcome whole = decode(head, body, std::max<size_t>(body.size(), 1));
  if (!(decode(head, body, 1) == whole) || !(decode(head, body, 7) == whole)) {
    std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto end = wire::http::find_head(bytes);
  if (!end || !*end) {
    return 0;
  }
  const std::string_view head = bytes.substr(0, **end);
  const std::string_view body = bytes.substr(**end);
  if (const auto request = wire::http::parse_request(head)) {
    (void)request->parameters();
    check_body(*request, body);
  }
  if (const auto response = wire::http::parse_response(head, "GET")) {
    check_body(*response, body);
  }
  return 0;
}
