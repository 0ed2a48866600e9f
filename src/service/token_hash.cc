#include "service/token_hash.h"

#include <openssl/evp.h>

#include <array>

#include "base/text.h"

namespace service {

std::string token_hash(std::string_view token) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  // EVP_sha256() would look the algorithm up again at each request, which takes longer than it.
  static EVP_MD* const sha256 = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  EVP_Digest(token.data(), token.size(), digest.data(), &size, sha256, nullptr);
  return base::hex(std::string_view(reinterpret_cast<const char*>(digest.data()), size));
}

}  // namespace service
