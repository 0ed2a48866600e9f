// StoreFollower: what this gateway has in memory follows what others write to the store. The store
// tells of changes as they are committed (store/change_feed.h); this reads what they touched. After
// the connection for that was lost everything is read again. Owned by main; loop thread only, the
// feed blocks a thread of its own.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "service/access.h"
#include "service/identity_keys.h"
#include "service/lifecycle.h"
#include "service/registries.h"
#include "service/token_limits.h"
#include "store/change_feed.h"

namespace service {

class StoreFollower {
 public:
  // `feed`: none where the store is a file.
  StoreFollower(Context& context, std::optional<store::ChangeFeed> feed, Access& access,
                Registries& registries, TokenLimitTable& limits, IdentityKeys& identity_keys,
                Lifecycle& lifecycle);

  // Listens from here on; before the first thing is read that others change.
  net::Task<base::Result<void>> begin();
  // Follows until stop() was called. Spawned by main.
  net::Task<void> run();
  void stop();
  // Reads what gateways that have gone wrote last, where that may not have been told.
  void catch_up();
  // Everything is to be read again: this gateway stood still.
  void read_all();

 private:
  // What is to be read.
  struct Stale {
    bool all = false;
    std::set<std::string> sandboxes;
    std::set<std::string> kinds;
    [[nodiscard]] bool any() const { return all || !sandboxes.empty() || !kinds.empty(); }
  };
  net::Task<base::Result<void>> hear();
  net::Task<base::Result<void>> read(Stale stale);
  net::Task<base::Result<void>> read_teams();

  Context& context_;
  std::optional<store::ChangeFeed> feed_;
  Access& access_;
  Registries& registries_;
  TokenLimitTable& limits_;
  IdentityKeys& identity_keys_;
  Lifecycle& lifecycle_;
  net::BlockingPool listening_;
  Stale stale_;
  bool stopping_ = false;
};

}  // namespace service
