#include "server/content_stream.h"

#include <zlib.h>
#include <zstd.h>

#include <array>
#include <optional>

#include "base/text.h"

namespace server {
namespace {

using base::ErrorCode;
using base::Result;

// 8 MiB: what every zstd decoder must take (RFC 8878 3.1.1.1.2); more would let a client choose how
// much memory its request costs.
constexpr int kZstdWindowLogMax = 23;
constexpr size_t kZstdHeadBytesMax = 18;  // magic number and frame header (RFC 8878 3.1.1)
// zlib: window of 32 KiB, 16 selects the gzip frame.
constexpr int kGzipWindowBits = 15 + 16;
constexpr int kGzipMemoryLevel = 8;  // zlib's default
// The bytes are sent once; speed counts more than the last per cent.
constexpr int kGzipLevel = 1;
constexpr int kZstdLevel = 1;
// 256 KiB: with a hundred downloads at a time the windows stay below 100 MB.
constexpr int kZstdWindowLog = 18;

class GzipDecoder final : public ContentDecoder {
 public:
  GzipDecoder() { inflateInit2(&stream_, kGzipWindowBits); }
  GzipDecoder(const GzipDecoder&) = delete;
  GzipDecoder& operator=(const GzipDecoder&) = delete;
  ~GzipDecoder() override { inflateEnd(&stream_); }

  [[nodiscard]] bool finished() const override { return finished_; }

 private:
  Result<std::string_view> take(std::string_view& input) override {
    if (finished_ && input.empty()) {
      return std::string_view();
    }
    if (finished_) {  // one more member (RFC 1952 2.2)
      inflateReset(&stream_);
    }
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(input.data()));
    stream_.avail_in = static_cast<uInt>(input.size());
    stream_.next_out = reinterpret_cast<Bytef*>(piece_.data());
    stream_.avail_out = static_cast<uInt>(piece_.size());
    const int status = inflate(&stream_, Z_NO_FLUSH);
    // Z_BUF_ERROR: nothing could be done for want of input.
    if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR) {
      return base::fail(ErrorCode::malformed, "the body is not valid gzip");
    }
    finished_ = status == Z_STREAM_END;
    input.remove_prefix(input.size() - stream_.avail_in);
    return std::string_view(piece_.data(), piece_.size() - stream_.avail_out);
  }

  z_stream stream_{};
  bool finished_ = false;
  std::array<char, kPieceBytes> piece_;
};

class ZstdDecoder final : public ContentDecoder {
 public:
  ZstdDecoder() : stream_(ZSTD_createDStream(), ZSTD_freeDStream) {
    ZSTD_DCtx_setParameter(stream_.get(), ZSTD_d_windowLogMax, kZstdWindowLogMax);
  }

  [[nodiscard]] bool finished() const override { return finished_; }

 private:
  Result<std::string_view> take(std::string_view& input) override {
    RETURN_IF_ERROR(take_head(input));
    if (!frame_size_) {
      return std::string_view();
    }
    ZSTD_inBuffer in{input.data(), input.size(), 0};
    ZSTD_outBuffer made{piece_.data(), piece_.size(), 0};
    const size_t hint = ZSTD_decompressStream(stream_.get(), &made, &in);
    frame_given_ += made.pos;
    finished_ = hint == 0;
    const bool lied =
        finished_ && *frame_size_ != ZSTD_CONTENTSIZE_UNKNOWN && *frame_size_ != frame_given_;
    if (ZSTD_isError(hint) != 0 || lied) {
      return malformed();
    }
    if (finished_) {
      frame_size_.reset();
      frame_given_ = 0;
    }
    input.remove_prefix(in.pos);
    return std::string_view(piece_.data(), made.pos);
  }

  // A frame may say how much is in it. The library compares that only where it has the whole frame
  // at once, or not with an empty last block: so it is done here, however the bytes come.
  Result<void> take_head(std::string_view& input) {
    while (!frame_size_ && !input.empty()) {
      finished_ = false;
      head_ += input.front();
      input.remove_prefix(1);
      const auto size = ZSTD_getFrameContentSize(head_.data(), head_.size());
      if (size == ZSTD_CONTENTSIZE_ERROR && head_.size() < kZstdHeadBytesMax) {
        continue;  // more of it is needed
      }
      ZSTD_inBuffer in{head_.data(), head_.size(), 0};
      ZSTD_outBuffer none{nullptr, 0, 0};
      if (size == ZSTD_CONTENTSIZE_ERROR ||
          ZSTD_isError(ZSTD_decompressStream(stream_.get(), &none, &in)) != 0 ||
          in.pos != head_.size()) {
        return malformed();
      }
      frame_size_ = size;
      head_.clear();
    }
    return {};
  }

  static std::unexpected<base::Error> malformed() {
    return base::fail(ErrorCode::malformed, "the body is not valid zstd");
  }

  std::unique_ptr<ZSTD_DStream, size_t (*)(ZSTD_DStream*)> stream_;
  std::string head_;  // of the next frame, until it is whole
  std::optional<unsigned long long> frame_size_;
  uint64_t frame_given_ = 0;
  bool finished_ = false;
  std::array<char, kPieceBytes> piece_;
};

class GzipEncoder final : public ContentEncoder {
 public:
  GzipEncoder() {
    deflateInit2(&stream_, kGzipLevel, Z_DEFLATED, kGzipWindowBits, kGzipMemoryLevel,
                 Z_DEFAULT_STRATEGY);
  }
  GzipEncoder(const GzipEncoder&) = delete;
  GzipEncoder& operator=(const GzipEncoder&) = delete;
  ~GzipEncoder() override { deflateEnd(&stream_); }

  std::string_view add(std::string_view plain) override { return pass(plain, Z_NO_FLUSH); }
  std::string_view finish() override { return pass({}, Z_FINISH); }

 private:
  std::string_view pass(std::string_view plain, int flush) {
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(plain.data()));
    stream_.avail_in = static_cast<uInt>(plain.size());
    size_t size = 0;
    do {
      out_.resize(size + ContentDecoder::kPieceBytes);
      stream_.next_out = reinterpret_cast<Bytef*>(out_.data() + size);
      stream_.avail_out = static_cast<uInt>(ContentDecoder::kPieceBytes);
      deflate(&stream_, flush);
      size = out_.size() - stream_.avail_out;
    } while (stream_.avail_out == 0);
    return std::string_view(out_).substr(0, size);
  }

  z_stream stream_{};
  std::string out_;
};

class ZstdEncoder final : public ContentEncoder {
 public:
  ZstdEncoder() : stream_(ZSTD_createCCtx(), ZSTD_freeCCtx) {
    ZSTD_CCtx_setParameter(stream_.get(), ZSTD_c_compressionLevel, kZstdLevel);
    ZSTD_CCtx_setParameter(stream_.get(), ZSTD_c_windowLog, kZstdWindowLog);
    ZSTD_CCtx_setParameter(stream_.get(), ZSTD_c_checksumFlag, 1);
  }

  std::string_view add(std::string_view plain) override { return pass(plain, ZSTD_e_continue); }
  std::string_view finish() override { return pass({}, ZSTD_e_end); }

 private:
  std::string_view pass(std::string_view plain, ZSTD_EndDirective directive) {
    ZSTD_inBuffer in{plain.data(), plain.size(), 0};
    size_t size = 0;
    size_t left = 0;
    do {
      out_.resize(size + ContentDecoder::kPieceBytes);
      ZSTD_outBuffer made{out_.data() + size, ContentDecoder::kPieceBytes, 0};
      left = ZSTD_compressStream2(stream_.get(), &made, &in, directive);
      size += made.pos;
    } while (in.pos < in.size || (directive == ZSTD_e_end && left > 0 && ZSTD_isError(left) == 0));
    return std::string_view(out_).substr(0, size);
  }

  std::unique_ptr<ZSTD_CCtx, size_t (*)(ZSTD_CCtx*)> stream_;
  std::string out_;
};

// The decoder of a coding that is known and is not identity.
std::unique_ptr<ContentDecoder> make_decoder(std::string_view coding) {
  if (base::equals_ignoring_case(coding, "gzip")) {
    return std::make_unique<GzipDecoder>();
  }
  if (base::equals_ignoring_case(coding, "zstd")) {
    return std::make_unique<ZstdDecoder>();
  }
  return nullptr;
}

}  // namespace

Result<std::unique_ptr<ContentDecoder>> ContentDecoder::make(std::string_view coding,
                                                             uint64_t bytes_max) {
  if (coding.empty() || base::equals_ignoring_case(coding, "identity")) {
    return nullptr;
  }
  auto decoder = make_decoder(coding);
  if (decoder == nullptr) {
    return base::fail(ErrorCode::not_supported, "Content-Encoding must be gzip, zstd or identity");
  }
  decoder->bytes_max_ = bytes_max;
  return decoder;
}

Result<std::string_view> ContentDecoder::next(std::string_view& input) {
  ASSIGN_OR_RETURN(const auto piece, take(input));
  given_ += piece.size();
  if (given_ > bytes_max_) {
    return base::fail(ErrorCode::body_too_large, "the inflated body exceeds ", bytes_max_,
                      " bytes");
  }
  return piece;
}

std::unique_ptr<ContentEncoder> ContentEncoder::make(Coding coding) {
  switch (coding) {
    case Coding::gzip:
      return std::make_unique<GzipEncoder>();
    case Coding::zstd:
      return std::make_unique<ZstdEncoder>();
    case Coding::identity:
      break;
  }
  return nullptr;
}

}  // namespace server
