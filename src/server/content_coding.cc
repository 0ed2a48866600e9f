#include "server/content_coding.h"

#include <optional>

#include "base/text.h"
#include "server/content_stream.h"

namespace server {
namespace {

using base::ErrorCode;
using base::Result;

constexpr int kQualityMost = 1000;
constexpr size_t kQualityDigits = 3;

// "q=0.25" in thousandths (RFC 9110 12.4.2), 1000 where there is none; 0 for what is no quality:
// nobody is sent what he may not have asked for.
int parse_quality(std::string_view parameters) {
  parameters = base::trim(parameters);
  if (parameters.empty()) {
    return kQualityMost;
  }
  if (!parameters.starts_with("q=") && !parameters.starts_with("Q=")) {
    return 0;
  }
  const std::string_view text = parameters.substr(2);
  if (text.empty() || (text[0] != '0' && text[0] != '1') || (text.size() > 1 && text[1] != '.') ||
      text.size() > 2 + kQualityDigits) {
    return 0;
  }
  std::string digits(text.size() > 2 ? text.substr(2) : "");
  digits.resize(kQualityDigits, '0');
  const auto fraction = base::parse_number<int>(digits);
  if (!fraction || *fraction < 0) {
    return 0;
  }
  return text[0] == '1' ? kQualityMost : *fraction;
}

// The quality that is given to `name` itself.
std::optional<int> named_quality(std::string_view accept_encoding, std::string_view name) {
  for (const std::string_view part : base::split(accept_encoding, ',')) {
    const size_t semicolon = part.find(';');
    if (base::equals_ignoring_case(base::trim(part.substr(0, semicolon)), name)) {
      return semicolon == part.npos ? kQualityMost : parse_quality(part.substr(semicolon + 1));
    }
  }
  return std::nullopt;
}

int gzip_quality(std::string_view accept_encoding) {
  return named_quality(accept_encoding, "gzip")
      .value_or(named_quality(accept_encoding, "*").value_or(0));
}

}  // namespace

std::string_view coding_name(Coding coding) {
  switch (coding) {
    case Coding::gzip:
      return "gzip";
    case Coding::zstd:
      return "zstd";
    case Coding::identity:
      break;
  }
  return "identity";
}

Coding choose_coding(const std::string* accept_encoding) {
  if (accept_encoding == nullptr) {
    return Coding::identity;
  }
  const int gzip = gzip_quality(*accept_encoding);
  const int zstd = named_quality(*accept_encoding, "zstd").value_or(0);
  const int plain = named_quality(*accept_encoding, "identity").value_or(0);
  if (zstd > 0 && zstd >= gzip && zstd >= plain) {
    return Coding::zstd;
  }
  return gzip > 0 && gzip >= plain ? Coding::gzip : Coding::identity;
}

bool accepts_gzip(const std::string* accept_encoding) {
  return accept_encoding != nullptr && gzip_quality(*accept_encoding) > 0;
}

Result<std::string> decode_content(std::string_view coding, std::string body, size_t bytes_max) {
  ASSIGN_OR_RETURN(const auto decoder, ContentDecoder::make(coding, bytes_max));
  if (!decoder) {
    return body;
  }
  std::string_view input = body;
  std::string out;
  for (bool more = true; more;) {
    ASSIGN_OR_RETURN(const auto piece, decoder->next(input));
    out.append(piece);
    more = !piece.empty() || !input.empty();
  }
  if (!decoder->finished()) {
    return base::fail(ErrorCode::malformed, "the ", coding, " body is cut off");
  }
  return out;
}

std::string encode_content(Coding coding, std::string_view bytes) {
  const auto encoder = ContentEncoder::make(coding);
  if (!encoder) {
    return std::string(bytes);
  }
  std::string out(encoder->add(bytes));
  out += encoder->finish();
  return out;
}

}  // namespace server
