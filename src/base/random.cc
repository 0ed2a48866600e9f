#include "base/random.h"

#include <sys/random.h>

#include <array>
#include <cstdlib>

namespace base {

void KernelRandom::fill(std::span<unsigned char> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::getrandom(bytes.data(), bytes.size(), 0);
    if (count <= 0) {
      std::abort();
    }
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
}

namespace {

std::string random_text(Random& random, size_t length, std::string_view alphabet) {
  std::string out(length, '\0');
  std::array<unsigned char, 64> bytes{};
  random.fill(std::span(bytes).first(length));
  for (size_t i = 0; i < length; ++i) {
    out[i] = alphabet[bytes[i] % alphabet.size()];  // 32 and 64 divide 256: no bias
  }
  return out;
}

}  // namespace

std::string new_id(Random& random, std::string_view prefix) {
  std::string id(prefix);
  id += '-';
  return id += random_text(random, 16, "abcdefghijklmnopqrstuvwxyz234567");
}

std::string new_secret(Random& random) {
  return random_text(random, 43,
                     "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_");
}

}  // namespace base
