#include "oidc/issuing_key.h"

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/ecdsa.h>
#include <openssl/evp.h>
#include <openssl/x509.h>

#include <cstdlib>

namespace oidc {
namespace {

constexpr int kNumberBytes = 32;  // of P-256

template <auto Free>
struct Freed {
  void operator()(auto* value) const noexcept { Free(value); }
};
using BigNumber = std::unique_ptr<BIGNUM, Freed<BN_free>>;
using DigestContext = std::unique_ptr<EVP_MD_CTX, Freed<EVP_MD_CTX_free>>;
using EcSignature = std::unique_ptr<ECDSA_SIG, Freed<ECDSA_SIG_free>>;
using PrivateInfo = std::unique_ptr<PKCS8_PRIV_KEY_INFO, Freed<PKCS8_PRIV_KEY_INFO_free>>;
using KeyPointer = std::shared_ptr<EVP_PKEY>;

// Only wrong use or no memory makes these fail.
void must(bool right) {
  if (!right) {
    std::abort();
  }
}

const unsigned char* bytes(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

std::string padded(const BIGNUM* number) {
  std::string out(kNumberBytes, '\0');
  must(BN_bn2binpad(number, reinterpret_cast<unsigned char*>(out.data()), kNumberBytes) ==
       kNumberBytes);
  return out;
}

std::string coordinate(const EVP_PKEY* key, const char* name) {
  BIGNUM* number = nullptr;
  must(EVP_PKEY_get_bn_param(key, name, &number) == 1);
  const BigNumber owned(number);
  return base::base64url(padded(number));
}

std::string sha256(std::string_view text) {
  std::string out(EVP_MAX_MD_SIZE, '\0');
  unsigned int size = 0;
  must(EVP_Digest(text.data(), text.size(), reinterpret_cast<unsigned char*>(out.data()), &size,
                  EVP_sha256(), nullptr) == 1);
  out.resize(size);
  return out;
}

}  // namespace

IssuingKey::IssuingKey(KeyPointer key) : key_(std::move(key)) {
  const std::string x = coordinate(key_.get(), OSSL_PKEY_PARAM_EC_PUB_X);
  const std::string y = coordinate(key_.get(), OSSL_PKEY_PARAM_EC_PUB_Y);
  // The members that the thumbprint is of, in its order.
  const std::string required =
      base::cat(R"({"crv":"P-256","kty":"EC","x":")", x, R"(","y":")", y, R"("})");
  id_ = base::base64url(sha256(required));
  public_text_ = base::cat(R"({"crv":"P-256","kty":"EC","x":")", x, R"(","y":")", y,
                           R"(","use":"sig","alg":"ES256","kid":")", id_, R"("})");
  head_ = base::base64url(base::cat(R"({"alg":"ES256","typ":"JWT","kid":")", id_, R"("})"));
}

IssuingKey IssuingKey::make() {
  KeyPointer key(EVP_EC_gen("P-256"), EVP_PKEY_free);
  must(key != nullptr);
  return IssuingKey(std::move(key));
}

Result<IssuingKey> IssuingKey::parse(const base::Secret& text) {
  const unsigned char* at = bytes(text.reveal());
  const PrivateInfo info(
      d2i_PKCS8_PRIV_KEY_INFO(nullptr, &at, static_cast<long>(text.reveal().size())));
  KeyPointer key(info ? EVP_PKCS82PKEY(info.get()) : nullptr, EVP_PKEY_free);
  if (!key || EVP_PKEY_is_a(key.get(), "EC") != 1 || EVP_PKEY_get_bits(key.get()) != 256) {
    return base::fail(ErrorCode::internal, "a stored signing key is not one of P-256");
  }
  return IssuingKey(std::move(key));
}

base::Secret IssuingKey::private_text() const {
  const PrivateInfo info(EVP_PKEY2PKCS8(key_.get()));
  unsigned char* der = nullptr;
  const int size = info ? i2d_PKCS8_PRIV_KEY_INFO(info.get(), &der) : 0;
  must(size > 0);
  std::string out(reinterpret_cast<char*>(der), static_cast<size_t>(size));
  OPENSSL_clear_free(der, static_cast<size_t>(size));
  return base::Secret(std::move(out));
}

std::string IssuingKey::sign(const wire::json::Object& claims) const {
  const std::string text = base::cat(head_, ".", base::base64url(wire::json::serialize(claims)));
  const DigestContext context(EVP_MD_CTX_new());
  size_t size = 0;
  must(context &&
       EVP_DigestSignInit(context.get(), nullptr, EVP_sha256(), nullptr, key_.get()) == 1);
  must(EVP_DigestSign(context.get(), nullptr, &size, bytes(text), text.size()) == 1);
  std::string der(size, '\0');
  must(EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(der.data()), &size,
                      bytes(text), text.size()) == 1);
  // r and s one after the other (RFC 7518 3.4).
  const unsigned char* at = bytes(der);
  const EcSignature signature(d2i_ECDSA_SIG(nullptr, &at, static_cast<long>(size)));
  must(signature != nullptr);
  return base::cat(text, ".",
                   base::base64url(padded(ECDSA_SIG_get0_r(signature.get())) +
                                   padded(ECDSA_SIG_get0_s(signature.get()))));
}

}  // namespace oidc
