// Secrets at rest: AES-256-GCM. One key of a ring seals, and its id stands before what it sealed;
// all of them open what they have sealed, so that a key can take over from another one while both
// are in use (service/key_rotation.h). Loop thread only.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "base/secret.h"
#include "service/master_keys.h"

namespace service {

class SecretBox {
 public:
  // `current` is the id of one of the keys.
  SecretBox(KeyRing keys, std::string_view current, base::Random& random);
  explicit SecretBox(base::Secret key, base::Random& random);
  // From here on these keys.
  void use(KeyRing keys, std::string_view current);

  // Id of the key, nonce, ciphertext and tag in one string. `purpose` is bound to it: what was
  // sealed for one row does not open as another's.
  [[nodiscard]] std::string seal(std::string_view plain, std::string_view purpose) const;
  [[nodiscard]] base::Result<base::Secret> unseal(std::string_view sealed,
                                                  std::string_view purpose) const;
  // Who has the key can tell that it was signed; lower-case hex (HMAC-SHA256). Begin `text` with
  // what it is for.
  [[nodiscard]] std::string sign(std::string_view text) const;
  // What any of the keys says of it.
  [[nodiscard]] std::vector<std::string> signatures(std::string_view text) const;

  [[nodiscard]] const MasterKey& current() const { return keys_[current_]; }
  [[nodiscard]] const KeyRing& keys() const { return keys_; }
  // Ids, separated by blanks: of the key that seals, then of the others.
  [[nodiscard]] std::string key_ids() const;

 private:
  KeyRing keys_;
  size_t current_ = 0;
  base::Random* random_;
};

}  // namespace service
