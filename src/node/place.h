// A place: all that one sandbox has on this machine, named by one number: host ids, network
// namespace, cgroups, storage area, run folder with the agent's socket, and the shell that waits
// in them. Made ahead or at once, by the same code. Places is owned by the node and used on its
// loop thread only. What belongs to no record is found by its name and removed at the start.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "base/error.h"
#include "base/fd.h"
#include "jail/shell.h"
#include "node/cgroups.h"
#include "node/network.h"
#include "node/storage.h"

namespace node {

inline constexpr uint32_t kIdsPerSandbox = 65'536;
// The agent's socket in the run folder of its sandbox: of main, else by the container's number.
std::string agent_socket(size_t container);
// Folders in RUN/sandboxes of places that have no sandbox yet; no id starts with a dot.
inline constexpr char kReadyFolderPrefix[] = ".ready-";

// How many places have host ids from there on.
uint32_t places_of_ids(uint32_t id_base);

struct PlaceOptions {
  std::string sandboxes_folder;  // RUN/sandboxes
  std::string images_folder;     // where layers lie; cloned once for each place
  uint32_t id_base = 0;
  uint32_t gateway_gid = 0;
};

struct Place {
  uint32_t index = 0;
  std::string name;     // of its storage area, and of its cgroups
  std::string cgroup;   // that the shell is in: `name`, or one below it
  std::string address;  // IPv4, inside
  std::string folder;   // run folder with agent.sock; renamed when a sandbox moves in
  std::string area;     // storage: upper/, work/, spool/
  uint32_t owner = 0;   // host id of the sandbox's root
  NetworkPlace network;
  std::optional<jail::Shell> shell;
  base::Fd listen;
  base::Fd area_mount;  // detached, so that no host path is seen inside
  base::Fd layers;      // the images folder, id-mapped
  base::Fd state;       // of a builder: the folder of its state, detached
  base::Fd oom_counter;
  // Of a sandbox of several containers, main's holds those of the others. They share its index,
  // ids, network, run folder and storage limit.
  std::vector<std::unique_ptr<Place>> others;
};

class Places {
 public:
  Places(const jail::Launcher& launcher, Storage& storage, Network& network, Cgroups& cgroups,
         PlaceOptions options)
      : launcher_(launcher),
        storage_(storage),
        network_(network),
        cgroups_(cgroups),
        options_(std::move(options)) {}

  // Leaves nothing behind when it fails.
  base::Result<std::unique_ptr<Place>> make(jail::Profile profile = jail::Profile::sandbox);
  // Of so many containers, each with limits of its own below the sandbox's.
  base::Result<std::unique_ptr<Place>> make_group(size_t containers);
  // Gives all of an unused place back. The shell dies here.
  void discard(std::unique_ptr<Place> place);
  // The parts of a place whose processes are dead: each step is idempotent.
  base::Result<void> remove_cgroups(uint32_t index);
  // `network` is what the sandbox had; empty for one that an earlier node made.
  void release_network(uint32_t index, NetworkPlace network);
  base::Result<void> remove_storage(uint32_t index);

  // At the start: marks the places of living sandboxes as used, then removes every other.
  base::Result<void> adopt(uint32_t index, const model::NetworkPolicy& policy, uint32_t mark);
  base::Result<void> reap_others();

  [[nodiscard]] static std::string name_of(uint32_t index);
  [[nodiscard]] uint32_t owner_of(uint32_t index) const {
    return options_.id_base + (index + 1) * kIdsPerSandbox;
  }
  [[nodiscard]] const PlaceOptions& options() const { return options_; }
  [[nodiscard]] Storage& storage() { return storage_; }
  [[nodiscard]] Network& network() { return network_; }
  [[nodiscard]] Cgroups& cgroups() { return cgroups_; }

 private:
  base::Result<void> fill(Place& place, jail::Profile profile);
  base::Result<void> fill_group(Place& main, size_t containers);
  base::Result<void> fill_other(Place& main, Place& other, size_t number);
  base::Result<void> start_shell(Place& place, const NetworkPlace& network, jail::Profile profile);
  base::Result<void> finish_place(Place& place);
  base::Result<void> prepare_area(Place& place);
  base::Result<void> prepare_state(Place& place);
  base::Result<void> listen(Place& place, size_t container);

  const jail::Launcher& launcher_;
  Storage& storage_;
  Network& network_;
  Cgroups& cgroups_;
  PlaceOptions options_;
  std::set<uint32_t> adopted_;
};

}  // namespace node
