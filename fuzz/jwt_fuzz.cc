// Tokens of an issuer, as anybody can send them, and its set of keys, as whoever answers in its
// place could: neither breaks anything, no token is right that no key has signed, and what is read
// is read the same again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "oidc/claims.h"
#include "oidc/key_set.h"

namespace {

// A token as it stands, and the parts of one as they are before they are encoded.
void read_token(std::string_view text) {
  const auto jwt = oidc::parse_jwt(text);
  const auto head = oidc::parse_jwt_head(text);
  if (!jwt) {
    return;
  }
  if (!head || head->key_id != jwt->head.key_id || head->algorithm != jwt->head.algorithm) {
    std::abort();
  }
  const oidc::Expected expected{.issuer = "https://issuer", .audiences = {"us"}, .skew_ms = 1};
  const auto until = oidc::check_claims(jwt->claims, expected, 1'000'000);
  if (until && *until <= 1'000'000) {
    std::abort();
  }
  static const auto keys = oidc::KeySet::parse(
      R"({"keys":[{"kty":"OKP","crv":"Ed25519",
                   "x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]})");
  if (keys && keys->verify(*jwt)) {
    std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  read_token(text);
  const size_t half = text.find('\n');
  const std::string_view head = text.substr(0, half);
  const std::string_view claims = half == std::string_view::npos ? "" : text.substr(half + 1);
  read_token(base::cat(base::base64url(head), ".", base::base64url(claims), ".c2ln"));
  const auto set = oidc::KeySet::parse(text);
  if (set && (set->size() == 0 || set->size() > oidc::kKeysMax)) {
    std::abort();
  }
  if (const auto bytes = base::decode_base64url(text); bytes && base::base64url(*bytes) != text) {
    std::abort();
  }
  return 0;
}
