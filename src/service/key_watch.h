// KeyWatch: a running gateway takes part in a rotation of keys (service/key_rotation.h). It looks
// every kLook at its key file and at which key the store says seals, uses what it finds, and tells
// in the store which keys it has. A key that is gone from the file opens nothing any more, once
// what it had sealed is read anew. Owned by main; loop thread only.
#pragma once

#include <string>

#include "base/file_stamp.h"
#include "service/context.h"
#include "service/lifecycle.h"
#include "service/registries.h"
#include "service/store_key.h"

namespace service {

// The fact in which a gateway tells its SecretBox::key_ids().
inline std::string keys_told_fact(std::string_view replica) {
  return base::cat("keys_of.", replica);
}

class KeyWatch {
 public:
  static constexpr base::Milliseconds kLook{1'000};

  // `box` is the context's.
  KeyWatch(Context& context, SecretBox& box, Registries& registries, Lifecycle& lifecycle,
           std::string file, KeyRing of_command);

  // The first look; before the gateway serves.
  net::Task<base::Result<void>> look();
  // Until cancelled. Spawned by main.
  net::Task<void> run();

 private:
  net::Task<base::Result<void>> use(KeyRing keys, std::string current);

  Context& context_;
  SecretBox& box_;
  Registries& registries_;
  Lifecycle& lifecycle_;
  std::string file_;
  KeyRing of_command_;
  base::FileStamp stamp_;
  KeyRing of_file_;
  std::string told_;
  std::string complaint_;  // the last one that was logged
};

}  // namespace service
