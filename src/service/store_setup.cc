#include "service/store_setup.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/file_lock.h"
#include "base/sys.h"
#include "service/store_key.h"
#include "store/migrations.h"
#include "store/store_url.h"

namespace service {
namespace {

using base::ErrorCode;
using base::Result;

// A database server that starts together with the gateway, or fails over, is there by then; after
// it whoever started the gateway (systemd) decides.
constexpr std::chrono::seconds kStorePatience{60};
constexpr std::chrono::milliseconds kPause{500};
constexpr std::chrono::seconds kLogPause{5};

void print(const std::string& line) {
  [[maybe_unused]] const auto written = base::sys::write_all(STDOUT_FILENO, line + "\n");
}

std::string title(const store::Migration& step) { return base::cat(step.version, " ", step.name); }

bool contains(const std::vector<store::Migration>& steps, int64_t version) {
  return std::ranges::find(steps, version, &store::Migration::version) != steps.end();
}

// The steps that are missing; of a file that is not there all of them, and none is made.
Result<std::vector<store::Migration>> pending_steps(const store::StoreUrl& url) {
  struct stat status{};
  if (url.engine == store::StoreEngine::sqlite && ::stat(url.target.c_str(), &status) != 0) {
    return std::vector<store::Migration>(store::migrations().begin(), store::migrations().end());
  }
  ASSIGN_OR_RETURN(store::Database database, store::Database::open(url.target));
  return store::pending_migrations(database, store::migrations());
}

}  // namespace

Result<std::vector<base::Fd>> lock_places(const std::string& data_folder, const std::string& url) {
  constexpr mode_t kMode = 0600;
  ASSIGN_OR_RETURN(const store::StoreUrl parsed, store::parse_store_url(url));
  std::vector<base::Fd> locks;
  auto folder = base::lock_file(data_folder + "/gateway.lock", kMode);
  if (!folder && folder.error().code == ErrorCode::conflict) {
    return base::fail(ErrorCode::conflict, data_folder,
                      " is used by another sandbox-gateway: each has a data folder of its own");
  }
  ASSIGN_OR_RETURN(base::Fd taken, std::move(folder));
  locks.push_back(std::move(taken));
  if (parsed.engine == store::StoreEngine::sqlite) {
    auto file = base::lock_file(parsed.target + ".lock", kMode);
    if (!file && file.error().code == ErrorCode::conflict) {
      return base::fail(ErrorCode::conflict, parsed.shown,
                        " is used by another sandbox-gateway: several share a PostgreSQL database, "
                        "a file is one's alone");
    }
    ASSIGN_OR_RETURN(base::Fd taken_too, std::move(file));
    locks.push_back(std::move(taken_too));
  }
  return locks;
}

Result<bool> is_shared_store(const std::string& url) {
  ASSIGN_OR_RETURN(const store::StoreUrl parsed, store::parse_store_url(url));
  return parsed.engine == store::StoreEngine::postgresql;
}

Result<std::unique_ptr<store::Store>> open_store(const std::string& url, base::Log& log) {
  using Clock = std::chrono::steady_clock;
  ASSIGN_OR_RETURN(const store::StoreUrl parsed, store::parse_store_url(url));
  const auto end = Clock::now() + kStorePatience;
  auto next_log = Clock::now();
  for (;;) {
    auto opened = store::Store::open(url);
    if (opened || opened.error().code != ErrorCode::unavailable ||
        parsed.engine == store::StoreEngine::sqlite || Clock::now() >= end) {
      return opened;
    }
    if (Clock::now() >= next_log) {
      log.warning("waiting for the store",
                  {{"store", parsed.shown}, {"error", opened.error().message}});
      next_log = Clock::now() + kLogPause;
    }
    std::this_thread::sleep_for(kPause);
  }
}

Result<bool> migrate_store(const std::string& url, MigrateMode mode, const base::Clock& clock) {
  ASSIGN_OR_RETURN(const store::StoreUrl parsed, store::parse_store_url(url));
  if (mode == MigrateMode::forget_key) {
    ASSIGN_OR_RETURN(auto store, store::Store::open(url));
    RETURN_IF_ERROR(forget_key(*store, clock));
    print(base::cat(parsed.shown, ": takes the key of the gateway that starts next"));
    return true;
  }
  ASSIGN_OR_RETURN(const auto pending, pending_steps(parsed));
  if (mode == MigrateMode::status) {
    for (const store::Migration& step : store::migrations()) {
      print(base::cat(contains(pending, step.version) ? "missing  " : "done     ", title(step)));
    }
  }
  if (mode != MigrateMode::apply || pending.empty()) {
    for (const store::Migration& step : pending) {
      if (mode == MigrateMode::dry_run) {
        print(base::cat("would apply ", title(step), "\n", step.sql));
      }
    }
    print(base::cat(parsed.shown, ": ", pending.empty() ? "up to date" : "not up to date"));
    return mode != MigrateMode::status || pending.empty();
  }
  ASSIGN_OR_RETURN(store::Database database, store::Database::open(url));
  ASSIGN_OR_RETURN(const auto done, store::migrate(database, store::migrations()));
  for (const store::Migration& step : done) {
    print(base::cat("applied ", title(step)));
  }
  print(base::cat(parsed.shown, ": up to date"));
  return true;
}

}  // namespace service
