#include "service/ssh_host_key.h"

#include <openssl/evp.h>

#include <array>
#include <memory>

#include "service/sealing.h"

namespace service {
namespace {

using base::ErrorCode;
using base::Result;

constexpr std::string_view kFact = "ssh_host_key";
constexpr std::string_view kType = "ssh-ed25519";
constexpr size_t kKeyBytes = 32;  // each half (RFC 8032)

using Key = std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY*)>;
using Half = std::array<unsigned char, kKeyBytes>;

std::string purpose() { return seal_purpose(store::SealedKind::ssh_host_key, kFact); }

std::unexpected<base::Error> failed(std::string_view step) {
  return base::fail(ErrorCode::internal, "SSH host key: ", step, " failed");
}

std::string_view text_of(const Half& half) {
  return {reinterpret_cast<const char*>(half.data()), half.size()};
}

Result<base::Secret> make_seed() {
  const Key key(::EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"), ::EVP_PKEY_free);
  Half seed{};
  size_t size = seed.size();
  if (!key || ::EVP_PKEY_get_raw_private_key(key.get(), seed.data(), &size) != 1) {
    return failed("making it");
  }
  return base::Secret(std::string(text_of(seed)));
}

Result<std::string> public_half(const std::string& seed) {
  const Key key(::EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr,
                                               reinterpret_cast<const unsigned char*>(seed.data()),
                                               seed.size()),
                ::EVP_PKEY_free);
  Half half{};
  size_t size = half.size();
  if (!key || ::EVP_PKEY_get_raw_public_key(key.get(), half.data(), &size) != 1 ||
      size != half.size()) {
    return failed("reading it");
  }
  return std::string(text_of(half));
}

std::string number(size_t value) {
  constexpr unsigned kBits = 8;
  std::string out;
  for (unsigned i = 4; i-- > 0;) {
    out += static_cast<char>((value >> (i * kBits)) & 0xFFU);
  }
  return out;
}

// RFC 4251's: its length, then its bytes.
std::string string(std::string_view text) { return base::cat(number(text.size()), text); }

// As OpenSSH writes key files (PROTOCOL.key), without a password.
std::string key_file(const std::string& seed, const std::string& public_bytes,
                     const std::string& blob) {
  constexpr size_t kBlock = 8;
  constexpr size_t kLine = 70;
  std::string inner = base::cat(number(0), number(0), string(kType), string(public_bytes),
                                string(seed + public_bytes), string(""));
  for (char i = 1; inner.size() % kBlock != 0; ++i) {
    inner += i;
  }
  const std::string text =
      base::base64(base::cat(std::string_view("openssh-key-v1\0", 15), string("none"),
                             string("none"), string(""), number(1), string(blob), string(inner)));
  std::string out = "-----BEGIN OPENSSH PRIVATE KEY-----\n";
  for (size_t at = 0; at < text.size(); at += kLine) {
    out += text.substr(at, kLine) + "\n";
  }
  return out + "-----END OPENSSH PRIVATE KEY-----\n";
}

}  // namespace

Result<SshHostKey> open_ssh_host_key(store::Store& store, const SecretBox& secrets) {
  ASSIGN_OR_RETURN(auto known, store.find_fact(kFact));
  if (!known) {
    ASSIGN_OR_RETURN(const auto made, make_seed());
    RETURN_IF_ERROR(store.put_fact(kFact, base::base64(secrets.seal(made.reveal(), purpose()))));
    // Of two that start first, one was faster.
    ASSIGN_OR_RETURN(known, store.find_fact(kFact));
  }
  const auto sealed = base::decode_base64(known.value_or(""));
  if (!sealed) {
    return failed("decoding it");
  }
  ASSIGN_OR_RETURN(const auto seed, secrets.unseal(*sealed, purpose()));
  ASSIGN_OR_RETURN(const auto public_bytes, public_half(seed.reveal()));
  const std::string blob = base::cat(string(kType), string(public_bytes));
  return SshHostKey{.private_key = base::Secret(key_file(seed.reveal(), public_bytes, blob)),
                    .public_line = base::cat(kType, " ", base::base64(blob))};
}

Result<void> forget_ssh_host_key(store::Store& store) { return store.forget_fact(kFact); }

}  // namespace service
