// SHA-256 of what is uploaded, by libcrypto's plain functions: they use the processor's SHA
// instructions and pull nothing else of it into the static program. A value, 112 bytes.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace agent {

class Sha256 {
 public:
  Sha256();
  void add(std::string_view bytes);
  // In hex; nothing may be added afterwards.
  std::string finish();

 private:
  // SHA256_CTX, whose header stays out of ours.
  static constexpr size_t kContextBytes = 112;
  alignas(8) std::array<std::byte, kContextBytes> context_{};
};

}  // namespace agent
