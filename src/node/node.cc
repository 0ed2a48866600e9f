#include "node/node.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/file_lock.h"
#include "base/sys.h"
#include "jail/shell.h"
#include "model/network_policy.h"
#include "net/task_group.h"
#include "node/cgroups.h"
#include "node/images.h"
#include "node/name_server.h"
#include "node/network.h"
#include "node/place.h"
#include "node/protocol_server.h"
#include "node/storage.h"
#include "node/supervisor.h"

namespace node {
namespace {

using base::Result;

// Below these numbers live the host's own users.
constexpr uint32_t kIdBaseMin = 2 * kIdsPerSandbox;
constexpr mode_t kRunMode = 0711;  // the gateway reaches what it may by name
constexpr mode_t kLibMode = 0700;
constexpr mode_t kSocketMode = 0660;
constexpr mode_t kLockMode = 0600;
constexpr int kBacklog = 64;
// 32-bit host ids hold no more ranges, whatever the subnet.
constexpr uint32_t kSandboxesMax = 65'536;
// A record and a socket a sandbox: room for more sandboxes than there are addresses.
constexpr const char* kRecordsSize = "size=512m,mode=0711";

// The folders of sandboxes come and go with them, on the node's only thread: on a disk that can
// mean waiting for it (ext4 mounted with `discard` waits 4 ms for each folder that goes). Their
// contents mean nothing after a reboot. What an earlier node left on the disk stays where it is.
Result<void> keep_in_memory(const std::string& folder) {
  struct statfs status{};
  if (::statfs(folder.c_str(), &status) != 0) {
    return base::fail_errno(errno, "stat ", folder);
  }
  ASSIGN_OR_RETURN(const auto entries, base::sys::list_folder(folder));
  if (status.f_type == TMPFS_MAGIC || !entries.empty()) {
    return {};
  }
  if (::mount("sandboxes", folder.c_str(), "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC,
              kRecordsSize) != 0) {
    return base::fail_errno(errno, "mount a tmpfs on ", folder);
  }
  return {};
}

}  // namespace

struct Node::Parts {
  explicit Parts(net::EventLoop& loop) : group(loop) {}

  std::vector<base::Fd> locks;
  jail::Launcher launcher;
  std::unique_ptr<Storage> storage;
  std::unique_ptr<Network> network;
  std::unique_ptr<NameServer> names;
  std::unique_ptr<Cgroups> cgroups;
  std::unique_ptr<Images> images;
  std::unique_ptr<Places> places;
  std::unique_ptr<Supervisor> supervisor;
  std::unique_ptr<ProtocolServer> server;
  size_t shells = 0;
  net::TaskGroup group;

  Result<void> lock(const NodeOptions& options);
  Result<void> make_folders(const NodeOptions& options);
  Result<void> open_drivers(const NodeOptions& options);
  [[nodiscard]] Result<void> close() const;
  net::Task<void> stop(net::EventLoop& loop) {
    co_await server->stop();
    if (names) {
      co_await names->stop();
    }
    co_await supervisor->stop();
    co_await images->stop();
    loop.stop();
  }
};

// Two nodes on one of these would remove each other's sandboxes and firewalls.
Result<void> Node::Parts::lock(const NodeOptions& options) {
  RETURN_IF_ERROR(check_prefix(options.name_prefix));
  ASSIGN_OR_RETURN(const Subnet subnet, parse_subnet(options.subnet));
  RETURN_IF_ERROR(base::sys::make_folders(options.run_folder, kRunMode));
  // In /run the nodes of one machine meet, whatever their folders.
  const std::string machine = "/run/sandbox-node-";
  const std::string first_address = model::ipv4_text(subnet.base);
  const std::pair<std::string, std::string> wanted[] = {
      {options.run_folder + "/node.lock", "the folder " + options.run_folder},
      {base::cat(machine, options.name_prefix, ".lock"),
       base::cat("the name prefix ", options.name_prefix, ": choose another name-prefix")},
      {base::cat(machine, first_address, ".lock"),
       base::cat("a subnet at ", first_address, ": choose another subnet")}};
  for (const auto& [path, whose] : wanted) {
    auto held = base::lock_file(path, kLockMode);
    if (!held && held.error().code == base::ErrorCode::conflict) {
      held = base::fail(base::ErrorCode::conflict, "another node of this machine has ", whose);
    }
    if (!held) {
      return std::unexpected(std::move(held).error());
    }
    locks.push_back(std::move(*held));
  }
  return {};
}

Result<void> Node::Parts::make_folders(const NodeOptions& options) {
  const std::string sandboxes = options.run_folder + "/sandboxes";
  RETURN_IF_ERROR(base::sys::make_folders(options.lib_folder, kLibMode));
  RETURN_IF_ERROR(base::sys::make_folder(sandboxes, kRunMode));
  RETURN_IF_ERROR(keep_in_memory(sandboxes));
  for (const std::string& folder : {options.run_folder, sandboxes}) {
    if (::chmod(folder.c_str(), kRunMode) != 0) {
      return base::fail_errno(errno, "chmod ", folder);
    }
  }
  if (::chmod(options.lib_folder.c_str(), kLibMode) != 0) {
    return base::fail_errno(errno, "chmod ", options.lib_folder);
  }
  return {};
}

Result<void> Node::Parts::open_drivers(const NodeOptions& options) {
  ASSIGN_OR_RETURN(launcher, jail::make_launcher(options.agent));
  ASSIGN_OR_RETURN(storage, Storage::open({.lib_folder = options.lib_folder,
                                           .pool_mb = options.storage_pool_mb,
                                           .driver = options.storage_driver}));
  ASSIGN_OR_RETURN(network, Network::open({.prefix = options.name_prefix,
                                           .subnet = options.subnet,
                                           .places_max = places_of_ids(options.id_base)}));
  ASSIGN_OR_RETURN(cgroups, Cgroups::open(options.name_prefix));
  return {};
}

// Nothing of this protects anyone once no sandbox is left.
Result<void> Node::Parts::close() const {
  RETURN_IF_ERROR(network->close());
  RETURN_IF_ERROR(images->close());
  return cgroups->close();
}

Node::Node(net::EventLoop& loop, std::unique_ptr<Parts> parts, base::Log& log)
    : loop_(loop), log_(log), parts_(std::move(parts)) {}

Node::~Node() = default;

Result<std::unique_ptr<Node>> Node::open(net::EventLoop& loop, const NodeOptions& options,
                                         base::Clock& clock, base::Log& log) {
  if (options.id_base < kIdBaseMin || places_of_ids(options.id_base) == 0) {
    return base::fail_field("id_base", "id-base must be at least ", kIdBaseMin,
                            " and leave room for the ids of a sandbox above it");
  }
  auto parts = std::make_unique<Parts>(loop);
  parts->shells = options.shells;
  RETURN_IF_ERROR(parts->lock(options));
  RETURN_IF_ERROR(parts->make_folders(options));
  RETURN_IF_ERROR(parts->open_drivers(options));
  // Without it every sandbox gets a network namespace made anew.
  auto sockets = SocketWatch::open(parts->cgroups->v2_folder(),
                                   std::min(parts->network->capacity(), kSandboxesMax));
  if (sockets) {
    parts->network->reuse_untouched(std::move(*sockets));
  } else {
    log.info("network namespaces are not used again", {{"note", sockets.error().message}});
  }
  if (!options.dns_helper.empty()) {
    ASSIGN_OR_RETURN(parts->names, NameServer::open(loop, *parts->network,
                                                    {.helper = options.dns_helper,
                                                     // Just below the image helper's.
                                                     .id = options.id_base - 1,
                                                     .servers = options.dns_servers},
                                                    log));
  }
  for (const std::string& note : parts->storage->notes()) {
    log.info("a storage driver was passed over", {{"note", note}});
  }
  // The image helper's ids lie just below those of the first sandbox.
  ASSIGN_OR_RETURN(parts->images, Images::open(loop,
                                               {.lib_folder = options.lib_folder,
                                                .helper = options.image_helper,
                                                .id_base = options.id_base,
                                                .allow_local = options.allow_local_images,
                                                .builder_root = options.builder_root,
                                                .name_prefix = options.name_prefix,
                                                .free_percent_min = options.image_free_percent},
                                               clock, log));
  parts->places =
      std::make_unique<Places>(parts->launcher, *parts->storage, *parts->network, *parts->cgroups,
                               PlaceOptions{.sandboxes_folder = options.run_folder + "/sandboxes",
                                            .images_folder = options.lib_folder + "/images",
                                            .id_base = options.id_base,
                                            .gateway_gid = options.gateway_gid});
  parts->supervisor =
      std::make_unique<Supervisor>(loop, *parts->places, *parts->images, clock, log);
  if (parts->names) {
    parts->names->on_refusal(
        [supervisor = parts->supervisor.get()](uint32_t sandbox, const Refusal& refusal) {
          supervisor->note_refusal(sandbox, refusal);
        });
  }
  RETURN_IF_ERROR(base::with_context(parts->supervisor->recover(), "clean up"));
  parts->images->collect_layers();
  const std::string socket_path = options.run_folder + "/node.sock";
  ASSIGN_OR_RETURN(auto socket, base::sys::listen_unix(socket_path, kSocketMode, kBacklog));
  if (::chown(socket_path.c_str(), 0, options.gateway_gid) != 0) {
    return base::fail_errno(errno, "chown ", socket_path);
  }
  parts->server = std::make_unique<ProtocolServer>(
      loop, std::move(socket), *parts->supervisor, *parts->images, *parts->network,
      read_host_size(parts->storage->capacity_mb()), log);
  return std::unique_ptr<Node>(new Node(loop, std::move(parts), log));
}

void Node::run() {
  parts_->supervisor->keep_ready(parts_->shells);
  parts_->supervisor->watch_refusals();
  if (parts_->names) {
    parts_->names->start();
  }
  parts_->server->run();
  loop_.run();
  if (parts_->supervisor->empty()) {
    if (const auto closed = parts_->close(); !closed) {
      log_.warning("the machine is not left as it was", {{"error", closed.error().message}});
    }
  }
}

void Node::stop_soon() { parts_->group.spawn(parts_->stop(loop_)); }

}  // namespace node
