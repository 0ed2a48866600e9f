// Unpredictable bytes from the kernel, and the ids made of them.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace base {

class Random {
 public:
  virtual ~Random() = default;
  virtual void fill(std::span<unsigned char> bytes) = 0;
};

// getrandom(2); aborts if the kernel has none to give (it always has after boot).
class KernelRandom final : public Random {
 public:
  void fill(std::span<unsigned char> bytes) override;
};

// prefix + "-" + 16 characters of [a-z2-7] (80 bits): safe as a DNS label and in a path.
std::string new_id(Random& random, std::string_view prefix);
// 43 characters of base64url without padding (256 bits): a bearer secret.
std::string new_secret(Random& random);

}  // namespace base
