// WebSocket frames of both roles. Besides not crashing: what comes out must not depend on how the
// bytes arrive, no message is above the limit, and text is UTF-8.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/text.h"
#include "wire/websocket.h"

namespace {

using wire::websocket::Decoder;
using wire::websocket::Event;
using wire::websocket::Role;

constexpr size_t kMessageBytesMax = 3000;

// Everything seen, as one text.
std::string decode(Role role, std::string_view bytes, size_t piece) {
  Decoder decoder(role, kMessageBytesMax);
  std::string seen;
  while (!bytes.empty()) {
    std::string part(bytes.substr(0, piece));
    bytes.remove_prefix(part.size());
    for (std::string_view rest = part; !rest.empty();) {
      const auto step = decoder.next(rest);
      if (!step) {
        return base::cat(seen, "violation ", step.error().close_code);
      }
      if (step->consumed == 0) {
        std::abort();  // no progress: a reader would spin
      }
      if (step->event) {
        const Event& event = *step->event;
        if (event.payload.size() > kMessageBytesMax ||
            (event.kind == Event::Kind::text && !base::is_utf8(event.payload))) {
          std::abort();
        }
        seen += base::cat(static_cast<int>(event.kind), ":", event.close_code, ":",
                          event.payload.size(), ":", event.payload, ";");
      }
      rest.remove_prefix(step->consumed);
    }
  }
  return seen;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  for (const Role role : {Role::client, Role::server}) {
    const std::string whole = decode(role, bytes, std::max<size_t>(size, 1));
    if (decode(role, bytes, 1) != whole || decode(role, bytes, 7) != whole) {
      std::abort();
    }
  }
  return 0;
}
