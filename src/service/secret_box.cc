#include "service/secret_box.h"

#include <openssl/evp.h>

#include <cstdlib>
#include <memory>
#include <span>

namespace service {
namespace {

using base::ErrorCode;
using base::Result;

constexpr size_t kNonceBytes = 12;
constexpr size_t kTagBytes = 16;

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

std::unexpected<base::Error> does_not_open() {
  return base::fail(ErrorCode::internal, "a sealed value does not open with this key");
}

// Nonce, ciphertext and tag.
Result<base::Secret> open_with(const base::Secret& key, std::string_view sealed,
                               std::string_view purpose) {
  if (sealed.size() < kNonceBytes + kTagBytes) {
    return does_not_open();
  }
  const size_t plain_size = sealed.size() - kNonceBytes - kTagBytes;
  std::string tag(sealed.substr(kNonceBytes + plain_size));
  std::string out(plain_size, '\0');
  const Context context = make_context();
  int size = 0;
  must(EVP_DecryptInit_ex(context.get(), EVP_aes_256_gcm(), nullptr, bytes(key.reveal()),
                          bytes(sealed)));
  must(EVP_DecryptUpdate(context.get(), nullptr, &size, bytes(purpose),
                         static_cast<int>(purpose.size())));
  must(EVP_DecryptUpdate(context.get(), bytes(out), &size, bytes(sealed) + kNonceBytes,
                         static_cast<int>(plain_size)));
  must(EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_GCM_SET_TAG, kTagBytes, tag.data()));
  if (EVP_DecryptFinal_ex(context.get(), bytes(out) + plain_size, &size) != 1) {
    return does_not_open();
  }
  return base::Secret(std::move(out));
}

KeyRing ring_of(base::Secret key) {
  KeyRing keys;
  keys.push_back(make_master_key(std::move(key)));
  return keys;
}

}  // namespace

SecretBox::SecretBox(KeyRing keys, std::string_view current, base::Random& random)
    : random_(&random) {
  use(std::move(keys), current);
}

SecretBox::SecretBox(base::Secret key, base::Random& random)
    : keys_(ring_of(std::move(key))), random_(&random) {}

void SecretBox::use(KeyRing keys, std::string_view current) {
  const MasterKey* const found = find_key(keys, current);
  if (found == nullptr) {
    std::abort();  // the caller has looked
  }
  current_ = static_cast<size_t>(found - keys.data());
  keys_ = std::move(keys);
}

std::string SecretBox::seal(std::string_view plain, std::string_view purpose) const {
  std::string out = current().raw_id;
  const size_t nonce = out.size();
  const size_t text = nonce + kNonceBytes;
  out.resize(text + plain.size() + kTagBytes);
  random_->fill(std::span(bytes(out) + nonce, kNonceBytes));
  const Context context = make_context();
  int size = 0;
  must(EVP_EncryptInit_ex(context.get(), EVP_aes_256_gcm(), nullptr,
                          bytes(current().bytes.reveal()), bytes(out) + nonce));
  must(EVP_EncryptUpdate(context.get(), nullptr, &size, bytes(purpose),
                         static_cast<int>(purpose.size())));
  must(EVP_EncryptUpdate(context.get(), bytes(out) + text, &size, bytes(plain),
                         static_cast<int>(plain.size())));
  must(EVP_EncryptFinal_ex(context.get(), bytes(out) + text + plain.size(), &size));
  must(EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_GCM_GET_TAG, kTagBytes,
                           bytes(out) + text + plain.size()));
  return out;
}

Result<base::Secret> SecretBox::unseal(std::string_view sealed, std::string_view purpose) const {
  for (const MasterKey& key : keys_) {
    if (sealed.starts_with(key.raw_id)) {
      return open_with(key.bytes, sealed.substr(key.raw_id.size()), purpose);
    }
  }
  // Sealed before keys had ids, or by a key that is not here.
  for (const MasterKey& key : keys_) {
    if (auto plain = open_with(key.bytes, sealed, purpose)) {
      return plain;
    }
  }
  return does_not_open();
}

std::string SecretBox::sign(std::string_view text) const {
  return keyed_hash(current().bytes, text);
}

std::vector<std::string> SecretBox::signatures(std::string_view text) const {
  std::vector<std::string> out;
  for (const MasterKey& key : keys_) {
    out.push_back(keyed_hash(key.bytes, text));
  }
  return out;
}

std::string SecretBox::key_ids() const {
  std::string out = current().id;
  for (const MasterKey& key : keys_) {
    if (key.id != current().id) {
      out += base::cat(" ", key.id);
    }
  }
  return out;
}

}  // namespace service
