#include "server/content_coding.h"

#include <zlib.h>
#include <zstd.h>

#include <array>
#include <memory>

#include "base/text.h"

namespace server {
namespace {

using base::ErrorCode;
using base::Result;

constexpr size_t kPieceBytes = 64 * 1024;
// zlib: window of 32 KiB, 16 selects the gzip frame.
constexpr int kGzipWindowBits = 15 + 16;
constexpr int kMemoryLevel = 8;  // zlib's default
// The bytes are sent once; speed counts more than the last per cent.
constexpr int kGzipLevel = 1;

std::unexpected<base::Error> too_large(size_t bytes_max) {
  return base::fail(ErrorCode::body_too_large, "the inflated body exceeds ", bytes_max, " bytes");
}

Result<std::string> gunzip(const std::string& body, size_t bytes_max) {
  z_stream stream{};
  if (inflateInit2(&stream, kGzipWindowBits) != Z_OK) {
    return base::fail(ErrorCode::internal, "zlib could not start");
  }
  const std::unique_ptr<z_stream, int (*)(z_stream*)> end(&stream, inflateEnd);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(body.data()));
  stream.avail_in = static_cast<uInt>(body.size());
  std::string out;
  std::array<char, kPieceBytes> piece;
  for (int status = Z_OK; status != Z_STREAM_END;) {
    stream.next_out = reinterpret_cast<Bytef*>(piece.data());
    stream.avail_out = static_cast<uInt>(piece.size());
    status = inflate(&stream, Z_NO_FLUSH);
    if (status != Z_OK && status != Z_STREAM_END) {
      return base::fail(ErrorCode::malformed, "the body is not valid gzip");
    }
    const size_t made = piece.size() - stream.avail_out;
    if (out.size() + made > bytes_max) {
      return too_large(bytes_max);
    }
    out.append(piece.data(), made);
  }
  if (stream.avail_in != 0) {
    return base::fail(ErrorCode::malformed, "bytes behind the gzip body");
  }
  return out;
}

Result<std::string> decode_zstd(const std::string& body, size_t bytes_max) {
  const std::unique_ptr<ZSTD_DStream, size_t (*)(ZSTD_DStream*)> stream(ZSTD_createDStream(),
                                                                        ZSTD_freeDStream);
  ZSTD_inBuffer in{body.data(), body.size(), 0};
  std::string out;
  std::array<char, kPieceBytes> piece;
  size_t hint = 1;
  while (hint != 0) {
    ZSTD_outBuffer made{piece.data(), piece.size(), 0};
    hint = ZSTD_decompressStream(stream.get(), &made, &in);
    const bool stuck = made.pos == 0 && in.pos == in.size && hint != 0;
    if (ZSTD_isError(hint) != 0 || stuck) {
      return base::fail(ErrorCode::malformed, "the body is not valid zstd");
    }
    if (out.size() + made.pos > bytes_max) {
      return too_large(bytes_max);
    }
    out.append(piece.data(), made.pos);
  }
  if (in.pos != in.size) {
    return base::fail(ErrorCode::malformed, "bytes behind the zstd body");
  }
  return out;
}

}  // namespace

Result<std::string> decode_content(std::string_view coding, std::string body, size_t bytes_max) {
  if (coding.empty() || base::equals_ignoring_case(coding, "identity")) {
    return body;
  }
  if (base::equals_ignoring_case(coding, "gzip")) {
    return gunzip(body, bytes_max);
  }
  if (base::equals_ignoring_case(coding, "zstd")) {
    return decode_zstd(body, bytes_max);
  }
  return base::fail(ErrorCode::not_supported, "Content-Encoding must be gzip, zstd or identity");
}

std::string gzip(std::string_view bytes) {
  z_stream stream{};
  if (deflateInit2(&stream, kGzipLevel, Z_DEFLATED, kGzipWindowBits, kMemoryLevel,
                   Z_DEFAULT_STRATEGY) != Z_OK) {
    return {};
  }
  std::string out(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(out.size() - stream.avail_out);
  deflateEnd(&stream);
  return out;
}

bool accepts_gzip(std::string_view accept_encoding) {
  for (const std::string_view part : base::split(accept_encoding, ',')) {
    const size_t semicolon = part.find(';');
    const std::string_view name = base::trim(part.substr(0, semicolon));
    const std::string_view quality =
        semicolon == std::string_view::npos ? "" : base::trim(part.substr(semicolon + 1));
    if (base::equals_ignoring_case(name, "gzip")) {
      return quality != "q=0" && quality != "q=0.0" && quality != "q=0.00" && quality != "q=0.000";
    }
  }
  return false;
}

}  // namespace server
