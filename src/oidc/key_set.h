// The public keys of an issuer (RFC 7517) and the check of a signature. A key is bound to what it
// may verify by its own kind, never by what a token asks for: an RSA key verifies RS256 and PS256,
// P-256 ES256, Ed25519 EdDSA, and a shared secret is no key here. A value; shared by copies.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "oidc/jwt.h"

using EVP_PKEY = struct evp_pkey_st;

namespace oidc {

// Issuers have two or three at a time; large ones a dozen.
inline constexpr size_t kKeysMax = 100;

class KeySet {
 public:
  // `text`: a JWK set. Keys of other kinds, for other uses, or weak ones are left out; malformed
  // for what is no set, and for one without a usable key.
  static Result<KeySet> parse(std::string_view text);

  // Whether the token's key is here. A token that names no key has one where only one can be meant.
  [[nodiscard]] bool has_key_for(const JwtHead& head) const { return find(head) != nullptr; }
  // unauthenticated: no such key, or not its signature.
  [[nodiscard]] Result<void> verify(const Jwt& token) const;
  [[nodiscard]] size_t size() const { return keys_.size(); }

 private:
  enum class Kind { rsa, p256, ed25519 };
  struct Key {
    std::string id;
    Kind kind = Kind::rsa;
    std::optional<Algorithm> algorithm;  // the only one, where the issuer says so
    std::shared_ptr<EVP_PKEY> key;
    [[nodiscard]] bool verifies(Algorithm wanted) const;
  };
  static std::optional<Key> read_key(const wire::json::Object& object);
  [[nodiscard]] const Key* find(const JwtHead& head) const;

  std::vector<Key> keys_;
};

}  // namespace oidc
