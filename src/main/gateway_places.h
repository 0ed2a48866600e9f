// Where the gateway's files are, and what it opens there before its loop runs.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/random.h"
#include "config/settings.h"
#include "service/ssh_host_key.h"
#include "service/store_key.h"
#include "service/teams.h"
#include "store/change_feed.h"
#include "store/store.h"

namespace gateway_places {

using base::Result;

struct Places {
  std::string node_socket;  // beside it are the folders of sandboxes
  std::string data;         // the gateway's own
  std::string ssh_socket;   // where the SSH front asks; empty: nowhere
};

Places places_of(const config::Settings& settings);
std::string sandboxes_folder(const Places& places);
service::KeySources key_sources(const config::Settings& settings, const Places& places);
// Of master-key-command, what can be said before it runs.
Result<void> check_keys(const config::Settings& settings);
std::string store_url(const config::Settings& settings, const Places& places);

struct Opened {
  std::vector<base::Fd> locks;
  std::unique_ptr<store::Store> store;
  std::optional<store::ChangeFeed> changes;  // where others can be on the store
  service::Teams teams;
  service::SecretBox secrets;
  service::KeyRing command_keys;
  service::SshHostKey ssh_host_key;
  std::string replica;
  bool host_restarted = false;
};

// The listening socket of the SSH front, in a folder of its own that the front's group may enter.
// Blocks. not_found: the folder is not there and cannot be made.
Result<base::Fd> listen_for_ssh(const config::Settings& settings, const Places& places);

// Blocks. The folder of data exists; `random` outlives what is opened.
Result<Opened> open_places(const config::Settings& settings, const Places& places,
                           base::Random& random, base::Log& log);

}  // namespace gateway_places
