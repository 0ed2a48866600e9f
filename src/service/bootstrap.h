// A token to begin with: an admin's, in a file (0600), its hash in the store.
#pragma once

#include <string>

#include "base/clock.h"
#include "base/random.h"
#include "store/store.h"

namespace service {

// Makes the token where the store has none that can administer the platform: at the first start,
// and after the last one was revoked or expired. Blocks; before the loop runs.
base::Result<void> make_admin_token(store::Store& store, const std::string& token_file,
                                    base::Random& random, base::Clock& clock);

}  // namespace service
