// Content codings piece by piece, for bodies that are relayed: gzip and zstd off and on. Each holds
// its coder's window (at most 8 MiB to take zstd off, 256 KiB to put it on) and one piece of
// output. One thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"
#include "server/content_coding.h"

namespace server {

// Takes a coding off.
class ContentDecoder {
 public:
  virtual ~ContentDecoder() = default;

  // Takes from the front of `input` what it can and gives at most kPieceBytes of plain bytes, which
  // hold until the next call. With empty input it gives what it still has. Behind the end of a
  // stream another one may follow (members of gzip, frames of zstd); anything else is malformed.
  // More than the limit of all pieces together is body_too_large.
  base::Result<std::string_view> next(std::string_view& input);
  // The coded stream came to its end: nothing of another one has been taken.
  [[nodiscard]] virtual bool finished() const = 0;
  // Plain bytes so far.
  [[nodiscard]] uint64_t given() const { return given_; }

  // `coding` as in Content-Encoding; nullptr for "" and identity; not_supported for an unknown one.
  static base::Result<std::unique_ptr<ContentDecoder>> make(std::string_view coding,
                                                            uint64_t bytes_max);

  static constexpr size_t kPieceBytes = size_t{64} * 1024;

 private:
  virtual base::Result<std::string_view> take(std::string_view& input) = 0;

  uint64_t bytes_max_ = 0;
  uint64_t given_ = 0;
};

// Puts a coding on.
class ContentEncoder {
 public:
  virtual ~ContentEncoder() = default;

  // What is ready of it; may be empty. Holds until the next call.
  virtual std::string_view add(std::string_view plain) = 0;
  // The rest, with the end of the stream.
  virtual std::string_view finish() = 0;

  // nullptr for identity.
  static std::unique_ptr<ContentEncoder> make(Coding coding);
};

}  // namespace server
