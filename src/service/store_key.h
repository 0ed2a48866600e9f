// The key of secrets at rest, and that all gateways on one store have the same: the fingerprint of
// the one that seals is in the store since the first of them. Blocks; before the loop runs.
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "service/secret_box.h"
#include "store/store.h"

namespace service {

// The fact of the store that says which key seals.
inline constexpr std::string_view kKeyFact = "key_fingerprint";

// Where keys come from. Both may have some.
struct KeySources {
  std::string file;
  std::vector<std::string> command;  // its words; empty: there is none
};

struct FoundKeys {
  KeyRing of_file;
  KeyRing of_command;
  [[nodiscard]] KeyRing all() const { return join_keys(of_file, of_command); }
};

// Runs the command, reads the file.
base::Result<FoundKeys> find_keys(const KeySources& sources);
// Among them the one of that fingerprint; conflict: it is not there.
base::Result<MasterKey> key_of_store(const KeyRing& keys, std::string_view fingerprint,
                                     const KeySources& sources);

struct OpenedKeys {
  SecretBox box;
  KeyRing of_command;
};
// Where there is no key and the store knows of none, makes one in the file. conflict: the store was
// used with another key, or there is none.
base::Result<OpenedKeys> open_secret_box(store::Store& store, const KeySources& sources,
                                         base::Random& random);
// From here on the store takes whatever key comes next. What the lost one sealed stays lost. The
// audit log has it (service/host_action.h), before it is done.
base::Result<void> forget_key(store::Store& store, const base::Clock& clock);

// This gateway's id among those on the store: of its data folder, so the same after a restart.
base::Result<std::string> read_replica_id(const std::string& data_folder, base::Random& random);

}  // namespace service
