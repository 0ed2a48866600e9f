#include "oidc/key_set.h"

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ecdsa.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>
#include <openssl/rsa.h>

#include <algorithm>

namespace oidc {
namespace {

using wire::json::Object;

// Shorter ones are broken; longer ones make each check slow.
constexpr size_t kRsaBytesMin = 2048 / 8;
constexpr size_t kRsaBytesMax = 8192 / 8;
constexpr size_t kExponentBytesMax = 4;  // 65537 has three
constexpr size_t kPointBytes = 32;       // a coordinate of P-256, a key of Ed25519
constexpr size_t kKeyIdBytesMax = 256;

template <auto Free>
struct Freed {
  void operator()(auto* value) const noexcept { Free(value); }
};
using BigNumber = std::unique_ptr<BIGNUM, Freed<BN_free>>;
using ParameterBuilder = std::unique_ptr<OSSL_PARAM_BLD, Freed<OSSL_PARAM_BLD_free>>;
using Parameters = std::unique_ptr<OSSL_PARAM, Freed<OSSL_PARAM_free>>;
using KeyContext = std::unique_ptr<EVP_PKEY_CTX, Freed<EVP_PKEY_CTX_free>>;
using DigestContext = std::unique_ptr<EVP_MD_CTX, Freed<EVP_MD_CTX_free>>;
using EcSignature = std::unique_ptr<ECDSA_SIG, Freed<ECDSA_SIG_free>>;
using PublicKey = std::shared_ptr<EVP_PKEY>;

const unsigned char* bytes(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

BigNumber number_of(std::string_view big_endian) {
  return BigNumber(BN_bin2bn(bytes(big_endian), static_cast<int>(big_endian.size()), nullptr));
}

std::optional<std::string_view> text_of(const Object& object, std::string_view name) {
  const auto* value = object.if_contains(name);
  return value != nullptr && value->is_string()
             ? std::optional(std::string_view(value->get_string()))
             : std::nullopt;
}

// The bytes of a base64url member; empty: it is not there or not such a text.
std::string bytes_of(const Object& object, std::string_view name) {
  return base::decode_base64url(text_of(object, name).value_or("")).value_or("");
}

PublicKey make_key(const char* type, OSSL_PARAM_BLD* builder) {
  const Parameters parameters(OSSL_PARAM_BLD_to_param(builder));
  const KeyContext context(EVP_PKEY_CTX_new_from_name(nullptr, type, nullptr));
  EVP_PKEY* key = nullptr;
  if (!parameters || !context || EVP_PKEY_fromdata_init(context.get()) != 1 ||
      EVP_PKEY_fromdata(context.get(), &key, EVP_PKEY_PUBLIC_KEY, parameters.get()) != 1) {
    return nullptr;
  }
  return {key, EVP_PKEY_free};
}

PublicKey rsa_key(const Object& object) {
  std::string modulus = bytes_of(object, "n");
  modulus.erase(0, std::min(modulus.find_first_not_of('\0'), modulus.size()));
  const std::string exponent = bytes_of(object, "e");
  if (modulus.size() < kRsaBytesMin || modulus.size() > kRsaBytesMax || exponent.empty() ||
      exponent.size() > kExponentBytesMax) {
    return nullptr;
  }
  const BigNumber n = number_of(modulus);
  const BigNumber e = number_of(exponent);
  const ParameterBuilder builder(OSSL_PARAM_BLD_new());
  // With an exponent of 1 everything is signed.
  const bool is_sound =
      n && e && BN_is_odd(n.get()) == 1 && BN_is_odd(e.get()) == 1 && BN_is_one(e.get()) == 0;
  if (!builder || !is_sound ||
      OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_RSA_N, n.get()) != 1 ||
      OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_RSA_E, e.get()) != 1) {
    return nullptr;
  }
  return make_key("RSA", builder.get());
}

PublicKey p256_key(const Object& object) {
  const std::string x = bytes_of(object, "x");
  const std::string y = bytes_of(object, "y");
  if (x.size() != kPointBytes || y.size() != kPointBytes) {
    return nullptr;
  }
  const std::string point = base::cat('\x04', x, y);  // uncompressed
  const ParameterBuilder builder(OSSL_PARAM_BLD_new());
  if (!builder ||
      OSSL_PARAM_BLD_push_utf8_string(builder.get(), OSSL_PKEY_PARAM_GROUP_NAME, "prime256v1", 0) !=
          1 ||
      OSSL_PARAM_BLD_push_octet_string(builder.get(), OSSL_PKEY_PARAM_PUB_KEY, point.data(),
                                       point.size()) != 1) {
    return nullptr;
  }
  return make_key("EC", builder.get());  // refuses what is not on the curve
}

PublicKey ed25519_key(const Object& object) {
  const std::string x = bytes_of(object, "x");
  if (x.size() != kPointBytes) {
    return nullptr;
  }
  EVP_PKEY* key = EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, bytes(x), x.size());
  return key == nullptr ? nullptr : PublicKey(key, EVP_PKEY_free);
}

// Whether it is a key for signatures.
bool is_for_signatures(const Object& object) {
  if (object.contains("use") && text_of(object, "use") != "sig") {
    return false;
  }
  const auto* operations = object.if_contains("key_ops");
  return operations == nullptr ||
         (operations->is_array() &&
          std::ranges::find(operations->get_array(), wire::json::Value("verify")) !=
              operations->get_array().end());
}

// r and s one after the other (RFC 7518 3.4) as OpenSSL wants them; empty: they are none.
std::string der_signature(std::string_view raw) {
  if (raw.size() != 2 * kPointBytes) {
    return "";
  }
  EcSignature signature(ECDSA_SIG_new());
  BigNumber r = number_of(raw.substr(0, kPointBytes));
  BigNumber s = number_of(raw.substr(kPointBytes));
  if (!signature || !r || !s || ECDSA_SIG_set0(signature.get(), r.release(), s.release()) != 1) {
    return "";
  }
  unsigned char* der = nullptr;
  const int size = i2d_ECDSA_SIG(signature.get(), &der);
  if (size <= 0) {
    return "";
  }
  std::string out(reinterpret_cast<char*>(der), static_cast<size_t>(size));
  OPENSSL_free(der);
  return out;
}

bool is_signed(EVP_PKEY* key, Algorithm algorithm, std::string_view text,
               const std::string& signature) {
  const DigestContext context(EVP_MD_CTX_new());
  const EVP_MD* digest = algorithm == Algorithm::eddsa ? nullptr : EVP_sha256();
  EVP_PKEY_CTX* options = nullptr;  // of the context
  if (!context || EVP_DigestVerifyInit(context.get(), &options, digest, nullptr, key) != 1) {
    return false;
  }
  if (algorithm == Algorithm::ps256 &&
      (EVP_PKEY_CTX_set_rsa_padding(options, RSA_PKCS1_PSS_PADDING) != 1 ||
       EVP_PKEY_CTX_set_rsa_pss_saltlen(options, RSA_PSS_SALTLEN_DIGEST) != 1)) {
    return false;
  }
  const std::string form = algorithm == Algorithm::es256 ? der_signature(signature) : signature;
  return !form.empty() &&
         EVP_DigestVerify(context.get(), bytes(form), form.size(), bytes(text), text.size()) == 1;
}

}  // namespace

bool KeySet::Key::verifies(Algorithm wanted) const {
  if (algorithm) {
    return *algorithm == wanted;
  }
  switch (wanted) {
    case Algorithm::rs256:
    case Algorithm::ps256:
      return kind == Kind::rsa;
    case Algorithm::es256:
      return kind == Kind::p256;
    case Algorithm::eddsa:
      return kind == Kind::ed25519;
  }
  return false;
}

std::optional<KeySet::Key> KeySet::read_key(const Object& object) {
  Key key;
  key.id = text_of(object, "kid").value_or("");
  if (key.id.size() > kKeyIdBytesMax || !is_for_signatures(object)) {
    return std::nullopt;
  }
  const auto type = text_of(object, "kty").value_or("");
  const auto curve = text_of(object, "crv").value_or("");
  if (type == "RSA") {
    key.kind = Kind::rsa;
    key.key = rsa_key(object);
  } else if (type == "EC" && curve == "P-256") {
    key.kind = Kind::p256;
    key.key = p256_key(object);
  } else if (type == "OKP" && curve == "Ed25519") {
    key.kind = Kind::ed25519;
    key.key = ed25519_key(object);
  }
  if (!key.key) {
    return std::nullopt;
  }
  if (object.contains("alg")) {
    const auto algorithm = parse_algorithm(text_of(object, "alg").value_or(""));
    if (!algorithm || !key.verifies(*algorithm)) {
      return std::nullopt;
    }
    key.algorithm = algorithm;
  }
  return key;
}

Result<KeySet> KeySet::parse(std::string_view text) {
  ASSIGN_OR_RETURN(const Object object, wire::json::parse_object_of_unique_keys(text));
  const auto* list = object.if_contains("keys");
  if (list == nullptr || !list->is_array()) {
    return base::fail(ErrorCode::malformed, "it has no list 'keys'");
  }
  if (list->get_array().size() > kKeysMax) {
    return base::fail(ErrorCode::malformed, "it has more than ", kKeysMax, " keys");
  }
  KeySet set;
  for (const auto& value : list->get_array()) {
    if (auto key = value.is_object() ? read_key(value.get_object()) : std::nullopt) {
      set.keys_.push_back(std::move(*key));
    }
  }
  if (set.keys_.empty()) {
    return base::fail(ErrorCode::malformed, "it has no key for RS256, PS256, ES256 or EdDSA");
  }
  return set;
}

const KeySet::Key* KeySet::find(const JwtHead& head) const {
  const Key* found = nullptr;
  for (const Key& key : keys_) {
    if (!key.verifies(head.algorithm) || (!head.key_id.empty() && key.id != head.key_id)) {
      continue;
    }
    if (found != nullptr) {
      return nullptr;  // more than one could be meant
    }
    found = &key;
  }
  return found;
}

Result<void> KeySet::verify(const Jwt& token) const {
  const Key* key = find(token.head);
  if (key == nullptr) {
    return base::fail(ErrorCode::unauthenticated,
                      "the token is not valid: its issuer has no such key");
  }
  if (!is_signed(key->key.get(), token.head.algorithm, token.signed_text, token.signature)) {
    return base::fail(ErrorCode::unauthenticated,
                      "the token is not valid: the signature is not its issuer's");
  }
  return {};
}

}  // namespace oidc
