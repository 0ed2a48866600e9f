#include "oidc/issuer_testing.h"

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/ecdsa.h>
#include <openssl/evp.h>
#include <openssl/rsa.h>

#include <cstdlib>
#include <vector>

namespace oidc {
namespace {

constexpr size_t kCoordinateBytes = 32;

EVP_PKEY* generate(SigningKey::Kind kind) {
  constexpr size_t kBits = 2048;
  constexpr size_t kWeakBits = 1024;
  switch (kind) {
    case SigningKey::Kind::rsa:
      return EVP_PKEY_Q_keygen(nullptr, nullptr, "RSA", kBits);
    case SigningKey::Kind::weak_rsa:
      return EVP_PKEY_Q_keygen(nullptr, nullptr, "RSA", kWeakBits);
    case SigningKey::Kind::p256:
      return EVP_PKEY_Q_keygen(nullptr, nullptr, "EC", "P-256");
    case SigningKey::Kind::ed25519:
      return EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519");
  }
  return nullptr;
}

void must(bool holds) {
  if (!holds) {
    std::abort();
  }
}

// A DER signature as r and s one after the other.
std::string raw_signature(const std::string& der) {
  const auto* at = reinterpret_cast<const unsigned char*>(der.data());
  ECDSA_SIG* signature = d2i_ECDSA_SIG(nullptr, &at, static_cast<long>(der.size()));
  std::string out(2 * kCoordinateBytes, '\0');
  auto* bytes = reinterpret_cast<unsigned char*>(out.data());
  BN_bn2binpad(ECDSA_SIG_get0_r(signature), bytes, kCoordinateBytes);
  BN_bn2binpad(ECDSA_SIG_get0_s(signature), bytes + kCoordinateBytes, kCoordinateBytes);
  ECDSA_SIG_free(signature);
  return out;
}

std::string_view name_of(SigningKey::Kind kind) {
  return kind == SigningKey::Kind::p256      ? "ES256"
         : kind == SigningKey::Kind::ed25519 ? "EdDSA"
                                             : "RS256";
}

}  // namespace

SigningKey::SigningKey(Kind kind, std::string id)
    : kind_(kind), id_(std::move(id)), key_(generate(kind), EVP_PKEY_free) {
  must(key_ != nullptr);
}

std::string SigningKey::number(const char* name) const {
  BIGNUM* value = nullptr;
  must(EVP_PKEY_get_bn_param(key_.get(), name, &value) == 1);
  const int size = kind_ == Kind::p256 ? static_cast<int>(kCoordinateBytes) : BN_num_bytes(value);
  std::string out(static_cast<size_t>(size), '\0');
  BN_bn2binpad(value, reinterpret_cast<unsigned char*>(out.data()), size);
  BN_free(value);
  return base::base64url(out);
}

std::string SigningKey::jwk(std::string_view more) const {
  const std::string kid = id_.empty() ? "" : base::cat(R"("kid":")", id_, "\",");
  switch (kind_) {
    case Kind::rsa:
    case Kind::weak_rsa:
      return base::cat("{", kid, R"("kty":"RSA","n":")", number(OSSL_PKEY_PARAM_RSA_N),
                       R"(","e":")", number(OSSL_PKEY_PARAM_RSA_E), "\"", more, "}");
    case Kind::p256:
      return base::cat("{", kid, R"("kty":"EC","crv":"P-256","x":")",
                       number(OSSL_PKEY_PARAM_EC_PUB_X), R"(","y":")",
                       number(OSSL_PKEY_PARAM_EC_PUB_Y), "\"", more, "}");
    case Kind::ed25519: {
      std::string x(kCoordinateBytes, '\0');
      size_t size = x.size();
      must(EVP_PKEY_get_raw_public_key(key_.get(), reinterpret_cast<unsigned char*>(x.data()),
                                       &size) == 1);
      return base::cat("{", kid, R"("kty":"OKP","crv":"Ed25519","x":")", base::base64url(x), "\"",
                       more, "}");
    }
  }
  return "";
}

std::string SigningKey::sign(std::string_view head, std::string_view claims,
                             Algorithm algorithm) const {
  const std::string text = base::cat(base::base64url(head), ".", base::base64url(claims));
  const std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context(EVP_MD_CTX_new(),
                                                                   EVP_MD_CTX_free);
  EVP_PKEY_CTX* options = nullptr;
  must(EVP_DigestSignInit(context.get(), &options, kind_ == Kind::ed25519 ? nullptr : EVP_sha256(),
                          nullptr, key_.get()) == 1);
  if (algorithm == Algorithm::ps256) {
    must(EVP_PKEY_CTX_set_rsa_padding(options, RSA_PKCS1_PSS_PADDING) == 1 &&
         EVP_PKEY_CTX_set_rsa_pss_saltlen(options, RSA_PSS_SALTLEN_DIGEST) == 1);
  }
  const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
  size_t size = 0;
  must(EVP_DigestSign(context.get(), nullptr, &size, bytes, text.size()) == 1);
  std::string signature(size, '\0');
  must(EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(signature.data()), &size,
                      bytes, text.size()) == 1);
  signature.resize(size);
  return base::cat(text, ".",
                   base::base64url(kind_ == Kind::p256 ? raw_signature(signature) : signature));
}

std::string SigningKey::token(std::string_view claims) const {
  const std::string_view name = name_of(kind_);
  const std::string kid = id_.empty() ? "" : base::cat(R"(,"kid":")", id_, "\"");
  return sign(base::cat(R"({"alg":")", name, R"(","typ":"JWT")", kid, "}"), claims,
              *parse_algorithm(name));
}

std::string key_set_of(std::initializer_list<std::string> keys) {
  std::string list;
  for (const std::string& key : keys) {
    list += base::cat(list.empty() ? "" : ",", key);
  }
  return base::cat(R"({"keys":[)", list, "]}");
}

base::Result<HttpAnswer> FakeHttp::send(const HttpRequest& request) {
  const std::lock_guard lock(mutex_);
  ++asked_[request.url];
  const auto found = answers_.find(request.url);
  if (found == answers_.end()) {
    return base::fail(base::ErrorCode::unavailable, "nobody answers at ", request.url);
  }
  return found->second(request);
}

void FakeHttp::answer(const std::string& url, std::string body, int status) {
  answer_by(url, [body = std::move(body), status](const HttpRequest&) {
    return HttpAnswer{.status = status, .body = body};
  });
}

void FakeHttp::answer_by(const std::string& url, Answer answer) {
  const std::lock_guard lock(mutex_);
  answers_[url] = std::move(answer);
}

void FakeHttp::forget(const std::string& url) {
  const std::lock_guard lock(mutex_);
  answers_.erase(url);
}

int FakeHttp::asked(const std::string& url) {
  const std::lock_guard lock(mutex_);
  return asked_[url];
}

}  // namespace oidc
