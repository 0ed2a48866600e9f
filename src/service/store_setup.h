// What happens to the store before the gateway serves: it is waited for, and its schema brought up
// to date; or, as `sandbox-gateway migrate`, only that. Blocks; on main's thread before the loop.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/log.h"
#include "store/store.h"

namespace service {

// Takes the data folder, and the store where it is a file, for this process alone as long as what
// it gives lives. conflict: another gateway has one of them.
base::Result<std::vector<base::Fd>> lock_places(const std::string& data_folder,
                                                const std::string& url);
// Whether several gateways can use the store of that URL.
base::Result<bool> is_shared_store(const std::string& url);

// Opens the store of that URL (store/store_url.h). A server that does not answer yet is waited for,
// kStorePatience at most, and the log says so.
base::Result<std::unique_ptr<store::Store>> open_store(const std::string& url, base::Log& log);

// Forgetting the key: service/store_key.h.
enum class MigrateMode { apply, dry_run, status, forget_key };
// Lines for a person on standard output. status: false while steps are missing, else true.
base::Result<bool> migrate_store(const std::string& url, MigrateMode mode,
                                 const base::Clock& clock);

}  // namespace service
