#include "image/digest.h"

#include <openssl/evp.h>
#include <stdlib.h>

#include <algorithm>

#include "base/text.h"

namespace image {
namespace {

constexpr std::string_view kPrefix = "sha256:";
constexpr size_t kHexBytes = 64;

// OpenSSL fails here only without memory or with a broken provider.
void require(int ok) {
  if (ok != 1) {
    ::abort();
  }
}

}  // namespace

void Sha256::Free::operator()(evp_md_ctx_st* context) const { EVP_MD_CTX_free(context); }

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  require(context_ != nullptr ? 1 : 0);
  require(EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr));
}

void Sha256::update(std::string_view bytes) {
  require(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()));
}

std::string Sha256::finish() {
  char bytes[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  require(EVP_DigestFinal_ex(context_.get(), reinterpret_cast<unsigned char*>(bytes), &size));
  return base::cat(kPrefix, base::hex({bytes, size}));
}

std::string sha256_of(std::string_view bytes) {
  Sha256 hash;
  hash.update(bytes);
  return hash.finish();
}

bool is_sha256(std::string_view text) {
  const auto is_hex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  return text.starts_with(kPrefix) && text.size() == kPrefix.size() + kHexBytes &&
         std::ranges::all_of(text.substr(kPrefix.size()), is_hex);
}

}  // namespace image
