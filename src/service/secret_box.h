// Secrets at rest: AES-256-GCM with a key of the gateway's own, kept in a file (0600) beside the
// store and made at the first start. Pure but for open(); loop thread or pool.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "base/random.h"
#include "base/secret.h"

namespace service {

class SecretBox {
 public:
  // Reads the key file or makes it.
  static base::Result<SecretBox> open(const std::string& key_file, base::Random& random);
  explicit SecretBox(base::Secret key, base::Random& random)
      : key_(std::move(key)), random_(&random) {}

  // Nonce, ciphertext and tag in one string. `purpose` is bound to it: what was sealed for one row
  // does not open as another's.
  [[nodiscard]] std::string seal(std::string_view plain, std::string_view purpose) const;
  // Who has the key can tell that it was signed; lower-case hex (HMAC-SHA256). Begin `text` with
  // what it is for.
  [[nodiscard]] std::string sign(std::string_view text) const;
  // Tells keys apart and says nothing of them.
  [[nodiscard]] std::string fingerprint() const { return sign("fingerprint"); }
  [[nodiscard]] base::Result<base::Secret> unseal(std::string_view sealed,
                                                  std::string_view purpose) const;

 private:
  base::Secret key_;  // 32 bytes
  base::Random* random_;
};

}  // namespace service
