#include "node/place.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/sys.h"
#include "jail/mounts.h"
#include "node/root_files.h"

namespace node {
namespace {

using base::Fd;
using base::Result;

// The last id that fits below the overflow range of 32-bit ids.
constexpr uint32_t kHighestId = 0xFFFF'0000;
// Requests of a burst wait here until the agent accepts them.
constexpr int kAgentBacklog = 128;
constexpr mode_t kFolderMode = 0750;
constexpr mode_t kStateMode = 0755;
constexpr mode_t kAreaMode = 0755;
constexpr mode_t kSocketMode = 0660;

// How long what was killed at the start may take to be gone, and how often that is looked at.
constexpr int kReapTries = 1000;
constexpr useconds_t kReapPauseMicroseconds = 5'000;

// Only before the loop runs, when there is nobody to keep waiting.
Result<void> remove_when_empty(Cgroups& cgroups, const std::string& name) {
  Result<void> removed;
  for (int i = 0; i < kReapTries; ++i) {
    removed = cgroups.remove(name);
    if (removed || removed.error().errno_value != EBUSY) {
      return removed;
    }
    ::usleep(kReapPauseMicroseconds);
  }
  return removed;
}

}  // namespace

uint32_t places_of_ids(uint32_t id_base) {
  const uint32_t ranges = id_base < kHighestId ? (kHighestId - id_base) / kIdsPerSandbox : 0;
  return ranges < 2 ? 0 : ranges - 1;  // the first one is the image helper's
}

std::string agent_socket(size_t container) {
  return container == 0 ? "agent.sock" : base::cat("agent-", container, ".sock");
}

std::string Places::name_of(uint32_t index) { return base::cat("s", index); }

Result<std::unique_ptr<Place>> Places::make(jail::Profile profile) {
  auto place = std::make_unique<Place>();
  ASSIGN_OR_RETURN(place->network, network_.begin());
  place->index = place->network.index;
  base::fault_point("node.place.network");
  if (auto filled = fill(*place, profile); !filled) {
    discard(std::move(place));
    return std::unexpected(std::move(filled).error());
  }
  return place;
}

Result<std::unique_ptr<Place>> Places::make_group(size_t containers) {
  auto place = std::make_unique<Place>();
  ASSIGN_OR_RETURN(place->network, network_.begin());
  place->index = place->network.index;
  if (auto filled = fill_group(*place, containers); !filled) {
    discard(std::move(place));
    return std::unexpected(std::move(filled).error());
  }
  return place;
}

Result<void> Places::fill_group(Place& main, size_t containers) {
  const std::string name = name_of(main.index);
  RETURN_IF_ERROR(cgroups_.make_parent(name));
  main.cgroup = name + "/c0";
  RETURN_IF_ERROR(fill(main, jail::Profile::sandbox));
  for (size_t number = 1; number < containers; ++number) {
    main.others.push_back(std::make_unique<Place>());
    RETURN_IF_ERROR(fill_other(main, *main.others.back(), number));
  }
  return {};
}

Result<void> Places::fill_other(Place& main, Place& other, size_t number) {
  other.index = main.index;
  other.name = base::cat("c", number);
  other.address = main.address;
  other.owner = main.owner;
  other.folder = main.folder;
  other.cgroup = base::cat(main.name, "/", other.name);
  RETURN_IF_ERROR(start_shell(other, main.network, jail::Profile::sandbox));
  // Below main's area, so that it counts against the same limit and goes with it.
  other.area = base::cat(main.area, "/", other.name);
  RETURN_IF_ERROR(base::sys::make_folder(other.area, kAreaMode));
  for (const char* part : kAreaParts) {
    RETURN_IF_ERROR(base::sys::make_folder(base::cat(other.area, "/", part), kAreaMode));
  }
  RETURN_IF_ERROR(prepare_area(other));
  RETURN_IF_ERROR(listen(other, number));
  return finish_place(other);
}

Result<void> Places::start_shell(Place& place, const NetworkPlace& network, jail::Profile profile) {
  ASSIGN_OR_RETURN(CgroupEntry cgroup, cgroups_.make(place.cgroup, place.owner));
  base::fault_point("node.place.cgroups");
  place.oom_counter = std::move(cgroup.oom_counter);
  ASSIGN_OR_RETURN(jail::Shell shell,
                   jail::Shell::make(launcher_, {.id_base = place.owner,
                                                 .network_namespace = network.name_space.get(),
                                                 .cgroup_tasks = cgroup.tasks,
                                                 .v2_folder = cgroup.v2_folder.get(),
                                                 .profile = profile}));
  place.shell.emplace(std::move(shell));
  base::fault_point("node.place.shell");
  return {};
}

Result<void> Places::finish_place(Place& place) {
  ASSIGN_OR_RETURN(place.layers, jail::clone_id_mapped(options_.images_folder,
                                                       place.shell->user_namespace().get()));
  return {};
}

Result<void> Places::fill(Place& place, jail::Profile profile) {
  place.name = name_of(place.index);
  place.cgroup = place.cgroup.empty() ? place.name : place.cgroup;
  place.address = place.network.address;
  place.owner = owner_of(place.index);
  // As early as it can be: it does its own part while the rest is made here.
  RETURN_IF_ERROR(start_shell(place, place.network, profile));
  RETURN_IF_ERROR(network_.finish(place.network));
  base::fault_point("node.place.veth");
  ASSIGN_OR_RETURN(place.area, storage_.make(place.name, 0));
  base::fault_point("node.place.storage");
  RETURN_IF_ERROR(prepare_area(place));
  if (profile == jail::Profile::builder) {
    RETURN_IF_ERROR(prepare_state(place));
  }
  base::fault_point("node.place.files");
  place.folder = base::cat(options_.sandboxes_folder, "/", kReadyFolderPrefix, place.index);
  RETURN_IF_ERROR(base::sys::make_folder(place.folder, kFolderMode));
  if (::lchown(place.folder.c_str(), 0, options_.gateway_gid) != 0) {
    return base::fail_errno(errno, "chown ", place.folder);
  }
  RETURN_IF_ERROR(listen(place, 0));
  base::fault_point("node.place.socket");
  return finish_place(place);
}

Result<void> Places::prepare_area(Place& place) {
  ASSIGN_OR_RETURN(place.area_mount, jail::clone_plain(place.area));
  const int area = place.area_mount.get();
  for (const char* name : {"upper", "spool"}) {
    if (::fchownat(area, name, place.owner, place.owner, AT_SYMLINK_NOFOLLOW) != 0) {
      return base::fail_errno(errno, "give ", name, " to the sandbox");
    }
  }
  if (::fchmodat(area, "upper", 0755, 0) != 0 || ::fchmodat(area, "spool", 0700, 0) != 0) {
    return base::fail_errno(errno, "set the modes of the storage area");
  }
  return prepare_root_files(area, place.owner);
}

// In the area, so that it counts against the same limit and goes with it.
Result<void> Places::prepare_state(Place& place) {
  const int area = place.area_mount.get();
  if (::mkdirat(area, jail::kStateFolder, kStateMode) != 0 ||
      ::fchownat(area, jail::kStateFolder, place.owner, place.owner, AT_SYMLINK_NOFOLLOW) != 0) {
    return base::fail_errno(errno, "make the builder's state folder");
  }
  ASSIGN_OR_RETURN(place.state, jail::clone_plain(base::cat(place.area, "/", jail::kStateFolder)));
  return {};
}

Result<void> Places::listen(Place& place, size_t container) {
  const std::string socket = base::cat(place.folder, "/", agent_socket(container));
  ASSIGN_OR_RETURN(place.listen, base::sys::listen_unix(socket, kSocketMode, kAgentBacklog));
  if (::lchown(socket.c_str(), 0, options_.gateway_gid) != 0) {
    return base::fail_errno(errno, "chown ", socket);
  }
  return {};
}

void Places::discard(std::unique_ptr<Place> place) {
  const uint32_t index = place->index;
  const std::string folder = place->folder;
  NetworkPlace network = std::move(place->network);
  place.reset();  // kills and reaps the shell, closes what keeps mounts and the network alive
  // What cannot be removed now is removed at the next start; an index in use is never given out.
  [[maybe_unused]] const auto cgroups = remove_cgroups(index);
  release_network(index, std::move(network));
  [[maybe_unused]] const auto storage = remove_storage(index);
  if (!folder.empty()) {
    [[maybe_unused]] const auto removed = base::sys::remove_tree(folder);
  }
}

Result<void> Places::remove_cgroups(uint32_t index) { return cgroups_.remove(name_of(index)); }

void Places::release_network(uint32_t index, NetworkPlace network) {
  if (network.name_space) {
    network_.give_back(std::move(network));
  } else {
    network_.release(index);
  }
}

Result<void> Places::remove_storage(uint32_t index) { return storage_.remove(name_of(index)); }

Result<void> Places::adopt(uint32_t index, const model::NetworkPolicy& policy, uint32_t mark) {
  adopted_.insert(index);
  return network_.adopt(index, policy, mark);
}

Result<void> Places::reap_others() {
  const auto is_other = [this](const std::string& name) {
    const auto index = base::parse_number<uint32_t>(std::string_view(name).substr(1));
    return name.front() != 's' || !index || !adopted_.contains(*index);
  };
  ASSIGN_OR_RETURN(const auto groups, cgroups_.list());
  for (const std::string& name : groups) {
    if (is_other(name)) {
      RETURN_IF_ERROR(cgroups_.kill(name));
      RETURN_IF_ERROR(remove_when_empty(cgroups_, name));
    }
  }
  RETURN_IF_ERROR(network_.reap_unknown());
  ASSIGN_OR_RETURN(const auto areas, storage_.list());
  for (const std::string& name : areas) {
    if (is_other(name)) {
      RETURN_IF_ERROR(storage_.remove(name));
    }
  }
  adopted_.clear();
  return {};
}

}  // namespace node
