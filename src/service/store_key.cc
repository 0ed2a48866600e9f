#include "service/store_key.h"

#include <algorithm>

#include "base/sys.h"
#include "base/text.h"
#include "service/host_action.h"
#include "service/key_command.h"
#include "service/ssh_host_key.h"

namespace service {
namespace {

using base::ErrorCode;
using base::Result;

constexpr mode_t kIdMode = 0600;
constexpr size_t kIdBytesMax = 64;

std::unexpected<base::Error> wrong_key(std::string_view what) {
  return base::fail(ErrorCode::conflict, what,
                    ": copy secret.key of a gateway that uses this store. Where no copy is left, "
                    "'sandbox-gateway migrate forget-key' gives up what it sealed (the environment "
                    "of queued sandboxes, passwords of registries, keys of sandboxes, the SSH host "
                    "key)");
}

}  // namespace

Result<FoundKeys> find_keys(const KeySources& sources) {
  FoundKeys found;
  if (!sources.command.empty()) {
    ASSIGN_OR_RETURN(found.of_command,
                     base::with_context(run_key_command(sources.command), "master-key-command"));
  }
  ASSIGN_OR_RETURN(found.of_file, read_key_file(sources.file));
  return found;
}

Result<MasterKey> key_of_store(const KeyRing& keys, std::string_view fingerprint,
                               const KeySources& sources) {
  const auto found = std::ranges::find(keys, fingerprint, &MasterKey::fingerprint);
  if (found != keys.end()) {
    return *found;
  }
  if (keys.empty()) {
    return wrong_key(base::cat(sources.file, " is missing, and the store was used with one"));
  }
  return wrong_key(base::cat(
      sources.file, sources.command.empty() ? " is" : " and what master-key-command prints are",
      " not the key that this store is used with (", fingerprint.substr(0, 2 * kKeyIdBytes), ")"));
}

Result<OpenedKeys> open_secret_box(store::Store& store, const KeySources& sources,
                                   base::Random& random) {
  ASSIGN_OR_RETURN(const FoundKeys found, find_keys(sources));
  ASSIGN_OR_RETURN(auto known, store.find_fact(kKeyFact));
  KeyRing keys = found.all();
  if (keys.empty() && !known) {
    keys.push_back(new_master_key(random));
    RETURN_IF_ERROR(write_key_file(sources.file, keys));
  }
  if (!known) {
    RETURN_IF_ERROR(store.put_fact(kKeyFact, keys.back().fingerprint));
    // Of two that start first, one was faster.
    ASSIGN_OR_RETURN(known, store.find_fact(kKeyFact));
  }
  ASSIGN_OR_RETURN(const MasterKey current, key_of_store(keys, known.value_or(""), sources));
  return OpenedKeys{.box = SecretBox(std::move(keys), current.id, random),
                    .of_command = found.of_command};
}

Result<void> forget_key(store::Store& store, const base::Clock& clock) {
  ASSIGN_OR_RETURN(const auto known, store.find_fact(kKeyFact));
  HostAction action(store, clock, "key.forget");
  action.details()["key"] = known.value_or("").substr(0, 2 * kKeyIdBytes);
  RETURN_IF_ERROR(action.record());
  auto forgotten = forget_ssh_host_key(store);
  if (forgotten) {
    forgotten = store.forget_fact(kKeyFact);
  }
  if (!forgotten) {
    return std::unexpected(action.record_failure(std::move(forgotten).error()));
  }
  return {};
}

Result<std::string> read_replica_id(const std::string& data_folder, base::Random& random) {
  const std::string file = data_folder + "/replica-id";
  const auto known = base::sys::read_file(file, kIdBytesMax);
  if (known) {
    return std::string(base::trim(*known));
  }
  if (known.error().errno_value != ENOENT) {
    return std::unexpected(known.error());
  }
  std::string id = base::new_id(random, "rep");
  RETURN_IF_ERROR(base::sys::replace_file(file, id, kIdMode));
  return id;
}

}  // namespace service
