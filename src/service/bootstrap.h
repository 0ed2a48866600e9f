// The first start: an admin token in a file (0600), its hash in the store. Later starts read the
// tokens of the store.
#pragma once

#include <string>

#include "base/clock.h"
#include "base/random.h"
#include "service/access.h"
#include "store/store.h"

namespace service {

// Makes the token where the store has none at all. Blocks; before the loop runs.
base::Result<void> make_admin_token(store::Store& store, const std::string& token_file,
                                    base::Random& random, base::Clock& clock);
// All tokens of the store that are not expired.
base::Result<Access> load_access(store::Store& store, base::Clock& clock);

}  // namespace service
