// A private key that this program signs its own tokens with (ES256: what every verifier knows, and
// tokens stay short). A value; shared by copies.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/secret.h"
#include "oidc/jwt.h"

using EVP_PKEY = struct evp_pkey_st;

namespace oidc {

class IssuingKey {
 public:
  static IssuingKey make();
  // internal: not what private_text() gave.
  static Result<IssuingKey> parse(const base::Secret& text);

  // The SHA-256 thumbprint of its public half (RFC 7638).
  [[nodiscard]] const std::string& id() const { return id_; }
  // Its public half as a member of a JWK set.
  [[nodiscard]] const std::string& public_text() const { return public_text_; }
  [[nodiscard]] base::Secret private_text() const;
  // The claims as a signed token.
  [[nodiscard]] std::string sign(const wire::json::Object& claims) const;

 private:
  explicit IssuingKey(std::shared_ptr<EVP_PKEY> key);

  std::shared_ptr<EVP_PKEY> key_;
  std::string id_;
  std::string public_text_;
  std::string head_;  // of its tokens, encoded
};

}  // namespace oidc
