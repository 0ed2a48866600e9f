// The key of secrets at rest, and that all gateways on one store have the same: a fingerprint of it
// is in the store since the first of them. Blocks; before the loop runs.
#pragma once

#include <string>

#include "service/secret_box.h"
#include "store/store.h"

namespace service {

// Reads the key file; where neither it nor a fingerprint is there yet, makes both. conflict: the
// store was used with another key, or the file is missing.
base::Result<SecretBox> open_secret_box(store::Store& store, const std::string& key_file,
                                        base::Random& random);
// From here on the store takes whatever key comes next. What the lost one sealed stays lost.
base::Result<void> forget_key(store::Store& store);

// This gateway's id among those on the store: of its data folder, so the same after a restart.
base::Result<std::string> read_replica_id(const std::string& data_folder, base::Random& random);

}  // namespace service
