#include "service/sandbox_keys.h"

#include <openssl/evp.h>

#include <array>
#include <cstdlib>
#include <memory>

#include "service/sealing.h"

namespace service {
namespace {

constexpr size_t kKeyBytes = 32;  // each half (RFC 8032)

using Half = std::array<unsigned char, kKeyBytes>;

std::string text_of(const Half& half) {
  return {reinterpret_cast<const char*>(half.data()), half.size()};
}

}  // namespace

void give_key(const SecretBox& secrets, SandboxRow& row) {
  const std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY*)> key(
      ::EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"), ::EVP_PKEY_free);
  Half seed{};
  Half half{};
  size_t seed_size = seed.size();
  size_t half_size = half.size();
  if (!key || ::EVP_PKEY_get_raw_private_key(key.get(), seed.data(), &seed_size) != 1 ||
      ::EVP_PKEY_get_raw_public_key(key.get(), half.data(), &half_size) != 1) {
    std::abort();  // only wrong use or no memory
  }
  const base::Secret plain(text_of(seed));
  ::explicit_bzero(seed.data(), seed.size());
  row.public_key = base::base64(text_of(half));
  row.key_sealed =
      secrets.seal(plain.reveal(), seal_purpose(store::SealedKind::sandbox_key, row.id));
}

base::Result<base::Secret> open_sandbox_key(const SecretBox& secrets, const SandboxRow& row) {
  if (row.key_sealed.empty()) {
    return base::fail(base::ErrorCode::not_found, "sandbox ", row.id, " has no key");
  }
  return secrets.unseal(row.key_sealed, seal_purpose(store::SealedKind::sandbox_key, row.id));
}

}  // namespace service
