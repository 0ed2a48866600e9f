#include "service/secret_box.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>

#include <cstdlib>
#include <memory>
#include <span>

#include "base/sys.h"

namespace service {
namespace {

using base::ErrorCode;
using base::Result;

constexpr size_t kKeyBytes = 32;
constexpr size_t kNonceBytes = 12;
constexpr size_t kTagBytes = 16;
constexpr mode_t kKeyMode = 0600;

using Context = std::unique_ptr<EVP_CIPHER_CTX, void (*)(EVP_CIPHER_CTX*)>;

Context make_context() { return {EVP_CIPHER_CTX_new(), EVP_CIPHER_CTX_free}; }

const unsigned char* bytes(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}
unsigned char* bytes(std::string& text) { return reinterpret_cast<unsigned char*>(text.data()); }

// Only wrong use or no memory makes a cipher call fail.
void must(int result) {
  if (result != 1) {
    std::abort();
  }
}

}  // namespace

Result<SecretBox> SecretBox::open(const std::string& key_file, base::Random& random) {
  auto found = base::sys::read_file(key_file, kKeyBytes + 1);
  if (!found && found.error().errno_value == ENOENT) {
    std::string key(kKeyBytes, '\0');
    random.fill(std::span(bytes(key), key.size()));
    RETURN_IF_ERROR(base::sys::replace_file(key_file, key, kKeyMode));
    return SecretBox(base::Secret(std::move(key)), random);
  }
  if (!found) {
    return std::unexpected(std::move(found).error());
  }
  if (found->size() != kKeyBytes) {
    return base::fail(ErrorCode::internal, key_file, " is not a key of ", kKeyBytes, " bytes");
  }
  return SecretBox(base::Secret(std::move(*found)), random);
}

std::string SecretBox::seal(std::string_view plain, std::string_view purpose) const {
  std::string out(kNonceBytes + plain.size() + kTagBytes, '\0');
  random_->fill(std::span(bytes(out), kNonceBytes));
  const Context context = make_context();
  int size = 0;
  must(EVP_EncryptInit_ex(context.get(), EVP_aes_256_gcm(), nullptr, bytes(key_.reveal()),
                          bytes(out)));
  must(EVP_EncryptUpdate(context.get(), nullptr, &size, bytes(purpose),
                         static_cast<int>(purpose.size())));
  must(EVP_EncryptUpdate(context.get(), bytes(out) + kNonceBytes, &size, bytes(plain),
                         static_cast<int>(plain.size())));
  must(EVP_EncryptFinal_ex(context.get(), bytes(out) + kNonceBytes + plain.size(), &size));
  must(EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_GCM_GET_TAG, kTagBytes,
                           bytes(out) + kNonceBytes + plain.size()));
  return out;
}

std::string SecretBox::sign(std::string_view text) const {
  std::string digest(SHA256_DIGEST_LENGTH, '\0');
  unsigned int size = 0;
  if (HMAC(EVP_sha256(), key_.reveal().data(), static_cast<int>(kKeyBytes), bytes(text),
           text.size(), bytes(digest), &size) == nullptr) {
    std::abort();
  }
  return base::hex(digest);
}

Result<base::Secret> SecretBox::unseal(std::string_view sealed, std::string_view purpose) const {
  if (sealed.size() < kNonceBytes + kTagBytes) {
    return base::fail(ErrorCode::internal, "a sealed value is too short");
  }
  const size_t plain_size = sealed.size() - kNonceBytes - kTagBytes;
  std::string tag(sealed.substr(kNonceBytes + plain_size));
  std::string out(plain_size, '\0');
  const Context context = make_context();
  int size = 0;
  must(EVP_DecryptInit_ex(context.get(), EVP_aes_256_gcm(), nullptr, bytes(key_.reveal()),
                          bytes(sealed)));
  must(EVP_DecryptUpdate(context.get(), nullptr, &size, bytes(purpose),
                         static_cast<int>(purpose.size())));
  must(EVP_DecryptUpdate(context.get(), bytes(out), &size, bytes(sealed) + kNonceBytes,
                         static_cast<int>(plain_size)));
  must(EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_GCM_SET_TAG, kTagBytes, tag.data()));
  if (EVP_DecryptFinal_ex(context.get(), bytes(out) + plain_size, &size) != 1) {
    return base::fail(ErrorCode::internal, "a sealed value does not open with this key");
  }
  return base::Secret(std::move(out));
}

}  // namespace service
