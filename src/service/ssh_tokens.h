// Tokens that an SSH client shows as its user name: JSON Web Tokens (RFC 7519) signed with HS256 by
// a key that is derived from the store's, so that every gateway on the store takes them. One opens
// one sandbox in the name of who asked for it. Pure but for the clock that is handed in.
#pragma once

#include <string>
#include <string_view>

#include "service/caller.h"
#include "service/secret_box.h"

namespace service {

class SshTokens {
 public:
  static constexpr int64_t kLifetimeSec = 300;
  // As a user name; OpenSSH's client takes far more.
  static constexpr size_t kBytesMax = 8'000;

  explicit SshTokens(const SecretBox& secrets) : secrets_(secrets) {}

  // Into that container, the first one where none is named. Never begins with '-'. conflict: it
  // would be longer than kBytesMax.
  [[nodiscard]] base::Result<std::string> issue(const Caller& caller, std::string_view sandbox,
                                                std::string_view container, int64_t now_ms) const;

  struct Pass {
    std::string sandbox;
    std::string container;
    Caller caller;  // as it was; Access::look_again() says what it is now
  };
  // unauthenticated, with a sentence that may be shown to whoever presented it.
  [[nodiscard]] base::Result<Pass> verify(std::string_view token, int64_t now_ms) const;

 private:
  const SecretBox& secrets_;
};

}  // namespace service
