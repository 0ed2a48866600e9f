#include "main/gateway_places.h"

#include <errno.h>
#include <grp.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/sys.h"
#include "service/bootstrap.h"
#include "service/key_command.h"
#include "service/store_setup.h"

namespace gateway_places {
namespace {

// Whether this is another boot than the one that was noted; notes this one.
Result<bool> note_boot(const std::string& data_folder) {
  constexpr size_t kBytesMax = 256;
  ASSIGN_OR_RETURN(const auto boot,
                   base::sys::read_file("/proc/sys/kernel/random/boot_id", kBytesMax));
  const std::string file = data_folder + "/boot-id";
  const auto noted = base::sys::read_file(file, kBytesMax);
  if (noted && *noted == boot) {
    return false;
  }
  constexpr mode_t kMode = 0600;
  RETURN_IF_ERROR(base::sys::replace_file(file, boot, kMode));
  return noted.has_value();
}

Result<gid_t> find_group(const std::string& name) {
  if (const auto number = base::parse_number<gid_t>(name)) {
    return *number;
  }
  const struct group* const found = ::getgrnam(name.c_str());  // before there are threads
  if (found == nullptr) {
    return base::fail(base::ErrorCode::not_found, "ssh-group: there is no group \"", name, "\"");
  }
  return found->gr_gid;
}

}  // namespace

Places places_of(const config::Settings& settings) {
  const std::string& state = settings.text("state");
  const std::string& socket = settings.text("node-socket");
  Places places{.node_socket = "/run/sandbox-gateway/node.sock",
                .data = "/var/lib/sandbox-gateway/gateway"};
  if (!state.empty()) {
    places = {.node_socket = state + "/run/node.sock", .data = state + "/gateway"};
  }
  if (!socket.empty()) {
    places.node_socket = socket;
  }
  places.ssh_socket = settings.text("ssh-socket");
  if (places.ssh_socket.empty()) {
    places.ssh_socket = state.empty() ? "/run/sandbox-gateway-ssh/gateway.sock"
                                      : state + "/gateway-ssh/gateway.sock";
  }
  return places;
}

std::string sandboxes_folder(const Places& places) {
  return places.node_socket.substr(0, places.node_socket.rfind('/') + 1) + "sandboxes";
}

service::KeySources key_sources(const config::Settings& settings, const Places& places) {
  service::KeySources sources{.file = places.data + "/secret.key", .command = {}};
  for (const std::string_view word : base::split(settings.text("master-key-command"), ' ')) {
    if (!word.empty()) {
      sources.command.emplace_back(word);
    }
  }
  return sources;
}

Result<void> check_keys(const config::Settings& settings) {
  const auto sources = key_sources(settings, places_of(settings));
  return sources.command.empty() ? Result<void>{}
                                 : base::with_context(service::check_key_command(sources.command),
                                                      "master-key-command");
}

std::string store_url(const config::Settings& settings, const Places& places) {
  const std::string& given = settings.text("store");
  return given.empty() ? places.data + "/gateway.db" : given;
}

Result<Opened> open_places(const config::Settings& settings, const Places& places,
                           base::Random& random, base::Log& log) {
  base::RealClock clock;
  const std::string url = store_url(settings, places);
  ASSIGN_OR_RETURN(auto locks, service::lock_places(places.data, url));
  ASSIGN_OR_RETURN(auto store, service::open_store(url, log));
  ASSIGN_OR_RETURN(auto keys,
                   service::open_secret_box(*store, key_sources(settings, places), random));
  ASSIGN_OR_RETURN(auto ssh_host_key, service::open_ssh_host_key(*store, keys.box));
  RETURN_IF_ERROR(service::make_admin_token(*store, places.data + "/admin.token", random, clock));
  ASSIGN_OR_RETURN(auto teams, service::Teams::load(*store));
  ASSIGN_OR_RETURN(auto replica, service::read_replica_id(places.data, random));
  ASSIGN_OR_RETURN(const bool host_restarted, note_boot(places.data));
  std::optional<store::ChangeFeed> changes;
  ASSIGN_OR_RETURN(const bool is_shared, service::is_shared_store(url));
  if (is_shared) {
    ASSIGN_OR_RETURN(changes, store::ChangeFeed::open(
                                  url, std::string(store->database().connection().writer())));
  }
  return Opened{.locks = std::move(locks),
                .store = std::move(store),
                .changes = std::move(changes),
                .teams = std::move(teams),
                .secrets = std::move(keys.box),
                .command_keys = std::move(keys.of_command),
                .ssh_host_key = std::move(ssh_host_key),
                .replica = std::move(replica),
                .host_restarted = host_restarted};
}

Result<base::Fd> listen_for_ssh(const config::Settings& settings, const Places& places) {
  constexpr mode_t kFolderMode = 0710;
  constexpr mode_t kSocketMode = 0660;
  constexpr int kBacklog = 1024;
  const std::string folder = places.ssh_socket.substr(0, places.ssh_socket.rfind('/'));
  RETURN_IF_ERROR(base::sys::make_folder(folder, kFolderMode));
  ASSIGN_OR_RETURN(auto socket, base::sys::listen_unix(places.ssh_socket, kSocketMode, kBacklog));
  if (const std::string& name = settings.text("ssh-group"); !name.empty()) {
    constexpr auto kSameOwner = static_cast<uid_t>(-1);
    ASSIGN_OR_RETURN(const gid_t group, find_group(name));
    if (::chown(folder.c_str(), kSameOwner, group) != 0 ||
        ::chmod(folder.c_str(), kFolderMode) != 0 ||
        ::chown(places.ssh_socket.c_str(), kSameOwner, group) != 0) {
      return base::fail_errno(errno, "give ", folder, " to the group of ssh-group");
    }
  }
  return socket;
}

}  // namespace gateway_places
