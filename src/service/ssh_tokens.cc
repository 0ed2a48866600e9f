#include "service/ssh_tokens.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>

#include <cstdlib>

#include "service/caller_text.h"
#include "wire/json.h"

namespace service {
namespace {

using base::ErrorCode;
using base::Result;

// The only head there is: what names another algorithm, or none, is not looked into.
constexpr std::string_view kHead = R"({"alg":"HS256","typ":"JWT"})";
constexpr std::string_view kAudience = "ssh";
constexpr std::string_view kKeyPurpose = "ssh tokens";
constexpr int64_t kMsPerSecond = 1000;

std::unexpected<base::Error> not_valid() {
  return base::fail(ErrorCode::unauthenticated, "the token is not valid");
}

std::string signature_of(std::string_view text, std::string_view key) {
  std::string digest(SHA256_DIGEST_LENGTH, '\0');
  unsigned int size = 0;
  if (::HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
             reinterpret_cast<const unsigned char*>(text.data()), text.size(),
             reinterpret_cast<unsigned char*>(digest.data()), &size) == nullptr) {
    std::abort();  // only wrong use or no memory
  }
  return base::base64url(digest);
}

// By one of the store's keys: while another one takes over, both are right.
bool is_signed(const SecretBox& secrets, std::string_view text, std::string_view shown) {
  bool is_right = false;
  for (const std::string& key : secrets.signatures(kKeyPurpose)) {
    const std::string right = signature_of(text, key);
    is_right = is_right || (shown.size() == right.size() &&
                            ::CRYPTO_memcmp(shown.data(), right.data(), right.size()) == 0);
  }
  return is_right;
}

}  // namespace

Result<std::string> SshTokens::issue(const Caller& caller, std::string_view sandbox,
                                     std::string_view container, int64_t now_ms) const {
  const int64_t now = now_ms / kMsPerSecond;
  wire::json::Object claims{
      {"aud", kAudience},
      {"sub", sandbox},
      {"iat", now},
      {"exp", now + kLifetimeSec},
      {"caller", caller_text(caller)},
  };
  if (!container.empty()) {
    claims["container"] = container;
  }
  std::string token =
      base::cat(base::base64url(kHead), ".", base::base64url(wire::json::serialize(claims)));
  token += base::cat(".", signature_of(token, secrets_.sign(kKeyPurpose)));
  if (token.size() > kBytesMax) {
    return base::fail(ErrorCode::conflict, "the caller's groups do not fit an SSH user name");
  }
  return token;
}

Result<SshTokens::Pass> SshTokens::verify(std::string_view token, int64_t now_ms) const {
  const size_t last = token.rfind('.');
  if (token.size() > kBytesMax || last == std::string_view::npos) {
    return not_valid();
  }
  const std::string_view text = token.substr(0, last);
  const std::string_view shown = token.substr(last + 1);
  const std::string head = base::cat(base::base64url(kHead), ".");
  if (!is_signed(secrets_, text, shown) || !text.starts_with(head)) {
    return not_valid();
  }
  const auto claims = base::decode_base64url(text.substr(head.size()));
  if (!claims) {
    return not_valid();
  }
  // From here on it is what issue() wrote.
  ASSIGN_OR_RETURN(const auto object, wire::json::parse_object(*claims));
  wire::json::Reader reader(object);
  ASSIGN_OR_RETURN(const auto audience, reader.required<std::string>("aud"));
  ASSIGN_OR_RETURN(const auto issued, reader.required<int64_t>("iat"));
  ASSIGN_OR_RETURN(const auto expires, reader.required<int64_t>("exp"));
  ASSIGN_OR_RETURN(const auto caller, reader.required<std::string>("caller"));
  Pass pass;
  ASSIGN_OR_RETURN(pass.sandbox, reader.required<std::string>("sub"));
  ASSIGN_OR_RETURN(auto container, reader.optional<std::string>("container"));
  pass.container = std::move(container).value_or("");
  const int64_t now = now_ms / kMsPerSecond;
  // One from the future (a clock was set back) would live too long.
  if (audience != kAudience || issued > now + kLifetimeSec) {
    return not_valid();
  }
  if (now >= expires) {
    return base::fail(ErrorCode::unauthenticated, "the token has expired: ask for another one");
  }
  ASSIGN_OR_RETURN(pass.caller, parse_caller_text(caller));
  return pass;
}

}  // namespace service
