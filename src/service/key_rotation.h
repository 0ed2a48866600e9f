// `sandbox-gateway keys …`: changes the key of secrets at rest while gateways run. A rotation has
// four steps, each whole or not at all, so that after an end at any point the same command goes on
// where it was:
//   1. a new key stands in the key file (or the operator's command prints one): nobody seals by it;
//   2. every gateway that lives has it; else they are named, and nothing else has changed;
//   3. the store says that it seals, and every gateway does so;
//   4. all that is sealed by others is sealed anew, a batch a transaction, each value only where it
//      is still what was read.
// Former keys stay in the file, where they open sessions and tokens that were given out; retiring
// them takes them away. Blocks; a process of its own.
//
// The audit log has a row of each (service/host_action.h): key.rotate in the transaction of step 3,
// or before step 4 where a rotation goes on; key.retire before the file is written.
#pragma once

#include <string>

#include "base/clock.h"
#include "base/random.h"
#include "service/store_key.h"

namespace service {

struct KeyWork {
  store::Store& store;
  KeySources sources;
  std::string data_folder;
  bool shared = false;  // whether several gateways can be on the store
  base::Random& random;
  const base::Clock& clock;
  base::Milliseconds patience{15'000};  // for gateways to follow
};

// Each gives lines for a person. conflict: the keys here are not the store's. in_use: another
// process is at it here. not_ready: gateways lack the new key (details.gateways), or do not follow.
base::Result<std::string> rotate_keys(KeyWork& work);
// Takes away the keys that are older than the one that seals, once nothing is sealed by them.
base::Result<std::string> retire_keys(KeyWork& work);
base::Result<std::string> list_keys(KeyWork& work);

}  // namespace service
