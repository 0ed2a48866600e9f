// Everything in the store that is sealed (service/secret_box.h), and what each value is bound to.
// What is sealed anew belongs here, so that a rotation of keys finds it.
#pragma once

#include <string>
#include <string_view>

#include "base/text.h"
#include "store/rows.h"

namespace service {

// `key` is the row's, as in store::SealedValue.
inline std::string seal_purpose(store::SealedKind kind, std::string_view key) {
  switch (kind) {
    case store::SealedKind::ssh_host_key:
    case store::SealedKind::environment:
      return std::string(key);
    case store::SealedKind::identity_key:
      return base::cat("identity-key.", key);
    case store::SealedKind::registry:  // "TEAM HOST"
      return base::cat("registry ", key.substr(key.find(' ') + 1));
    case store::SealedKind::sandbox_key:
      return base::cat("sandbox-key.", key);
  }
  return {};
}

}  // namespace service
