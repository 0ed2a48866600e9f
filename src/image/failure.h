// Failures of this program: an Error whose details.reason is one of the API's image reasons, so
// that the node can pass it on without reading the sentence.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace image {

using base::cat;
using base::Error;
using base::ErrorCode;
using base::Result;

inline constexpr std::string_view kInvalid = "image_invalid";
inline constexpr std::string_view kNotFound = "image_not_found";
inline constexpr std::string_view kPullDenied = "image_pull_denied";
inline constexpr std::string_view kPullFailed = "image_pull_failed";
inline constexpr std::string_view kRateLimited = "image_rate_limited";
inline constexpr std::string_view kPlatformMismatch = "image_platform_mismatch";
inline constexpr std::string_view kDigestMismatch = "image_digest_mismatch";

template <typename... Parts>
std::unexpected<Error> fail_image(std::string_view reason, const Parts&... parts) {
  return std::unexpected(Error{.code = ErrorCode::archive_invalid,
                               .message = cat(parts...),
                               .details = {{"reason", std::string(reason)}}});
}

// The reason an error carries; what carries none (a system call, the disk) is a failed pull.
inline std::string reason_of(const Error& error) {
  for (const auto& [key, value] : error.details) {
    if (key == "reason") {
      return value;
    }
  }
  return std::string(kPullFailed);
}

}  // namespace image
