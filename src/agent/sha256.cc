#define OPENSSL_SUPPRESS_DEPRECATED  // the successors cost 3 MB of static program
#include "agent/sha256.h"

#include <openssl/sha.h>

#include "base/text.h"

namespace agent {
namespace {

SHA256_CTX* context(std::byte* bytes) {
  return reinterpret_cast<SHA256_CTX*>(bytes);  // NOLINT: storage of that type, see the header
}

}  // namespace

Sha256::Sha256() {
  static_assert(sizeof(SHA256_CTX) == kContextBytes);
  ::SHA256_Init(context(context_.data()));
}

void Sha256::add(std::string_view bytes) {
  ::SHA256_Update(context(context_.data()), bytes.data(), bytes.size());
}

std::string Sha256::finish() {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
  ::SHA256_Final(digest.data(), context(context_.data()));
  return base::hex({reinterpret_cast<const char*>(digest.data()), digest.size()});  // NOLINT
}

}  // namespace agent
