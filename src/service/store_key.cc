#include "service/store_key.h"

#include <fcntl.h>

#include "base/sys.h"
#include "base/text.h"
#include "service/ssh_host_key.h"

namespace service {
namespace {

using base::ErrorCode;
using base::Result;

constexpr std::string_view kFact = "key_fingerprint";
constexpr mode_t kIdMode = 0600;
constexpr size_t kIdBytesMax = 64;

std::unexpected<base::Error> wrong_key(const std::string& key_file, std::string_view what) {
  return base::fail(ErrorCode::conflict, key_file, " ", what,
                    ": copy the file of a gateway that uses this store. Where no copy is left, "
                    "'sandbox-gateway migrate forget-key' gives up what it sealed (the environment "
                    "of queued sandboxes, passwords of registries, the SSH host key)");
}

}  // namespace

Result<SecretBox> open_secret_box(store::Store& store, const std::string& key_file,
                                  base::Random& random) {
  ASSIGN_OR_RETURN(const auto known, store.find_fact(kFact));
  const auto present = base::sys::open(key_file, O_RDONLY);
  if (known && !present && present.error().errno_value == ENOENT) {
    return wrong_key(key_file, "is missing, and the store was used with one");
  }
  ASSIGN_OR_RETURN(auto box, SecretBox::open(key_file, random));
  RETURN_IF_ERROR(store.put_fact(kFact, box.fingerprint()));
  // Of two that start first, one was faster.
  ASSIGN_OR_RETURN(const auto stored, store.find_fact(kFact));
  if (stored != box.fingerprint()) {
    return wrong_key(key_file, "is not the key that this store is used with");
  }
  return box;
}

Result<void> forget_key(store::Store& store) {
  RETURN_IF_ERROR(forget_ssh_host_key(store));
  return store.forget_fact(kFact);
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
  const std::string id = base::new_id(random, "rep");
  RETURN_IF_ERROR(base::sys::replace_file(file, id, kIdMode));
  return id;
}

}  // namespace service
