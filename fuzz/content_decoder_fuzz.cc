// Bodies with a content coding. The first byte chooses the coding, the second how they are cut: the
// same bytes give the same text or the same refusal however they arrive, and never more than is
// allowed.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>

#include "server/content_stream.h"

namespace {

constexpr uint64_t kBytesMax = 1 << 20;

// The plain bytes of `coded` that comes in pieces of `step`; nullopt where it is refused or cut.
std::optional<std::string> decode(std::string_view coding, std::string_view coded, size_t step) {
  const auto decoder = server::ContentDecoder::make(coding, kBytesMax);
  if (!decoder) {
    std::abort();
  }
  std::string plain;
  do {
    std::string_view input = coded.substr(0, step);
    coded.remove_prefix(input.size());
    for (bool more = true; more;) {
      const size_t before = input.size();
      const auto piece = (*decoder)->next(input);
      if (!piece) {
        return std::nullopt;
      }
      if (piece->size() > server::ContentDecoder::kPieceBytes || input.size() > before) {
        std::abort();
      }
      plain += *piece;
      more = !piece->empty() || !input.empty();
    }
  } while (!coded.empty());
  if (plain.size() > kBytesMax || plain.size() != (*decoder)->given()) {
    std::abort();
  }
  return (*decoder)->finished() ? std::optional(std::move(plain)) : std::nullopt;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) {
    return 0;
  }
  const std::string_view coding = data[0] % 2 == 0 ? "gzip" : "zstd";
  const std::string_view coded(reinterpret_cast<const char*>(data + 2), size - 2);
  const auto whole = decode(coding, coded, std::max<size_t>(coded.size(), 1));
  if (decode(coding, coded, size_t{1} + data[1]) != whole) {
    std::abort();
  }
  return 0;
}
