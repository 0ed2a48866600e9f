#include "config/node_options.h"

#include <array>

namespace config {
namespace {

constexpr int64_t kIdMost = std::numeric_limits<uint32_t>::max();
constexpr int64_t kShellsMost = 100'000;  // more than any id range has room for
constexpr int64_t kPercentMost = 100;

constexpr std::array kOptions{
    Option{.name = "state",
           .kind = Kind::path,
           .value = "DIR",
           .help = "everything under DIR (run/, lib/); empty: /run/sandbox-gateway and "
                   "/var/lib/sandbox-gateway/lib",
           .section = "Places",
           .may_be_empty = true},
    Option{.name = "agent",
           .kind = Kind::path,
           .standard = "/usr/lib/sandbox-gateway/sandbox-agent",
           .value = "PATH",
           .help = "the program that is started in every sandbox"},
    Option{.name = "image-helper",
           .kind = Kind::path,
           .standard = "/usr/lib/sandbox-gateway/sandbox-image",
           .value = "PATH",
           .help = "the confined program that fetches and unpacks images"},
    Option{.name = "dns-helper",
           .kind = Kind::path,
           .standard = "/usr/lib/sandbox-gateway/sandbox-dns",
           .value = "PATH",
           .help = "the confined program that resolves the names on sandboxes' allow-lists"},
    Option{.name = "builder-root",
           .kind = Kind::path,
           .standard = "/usr/lib/sandbox-gateway/builder",
           .value = "DIR",
           .help = "the root file system of image builders; where it is missing, images cannot be "
                   "built"},
    Option{.name = "gateway-group",
           .standard = "sandbox-gateway",
           .value = "GROUP",
           .help = "the group, by name or number, that may open the node's socket"},
    Option{.name = "shells",
           .kind = Kind::number,
           .standard = "0",
           .value = "N",
           .help = "places made ahead; a burst larger than N is slower, each costs about 0.6 MiB",
           .section = "Sandboxes",
           .most = kShellsMost},
    Option{.name = "name-prefix",
           .standard = "sg",
           .value = "NAME",
           .help =
               "begins the names of interfaces, cgroups and the firewall's table; 1 to 8 of a-z "
               "and 0-9. Each node on a machine has its own, as it has a subnet and an id "
               "range"},
    Option{.name = "subnet",
           .standard = "10.201.0.0/16",
           .value = "CIDR",
           .help = "the sandboxes' addresses"},
    Option{.name = "dns-servers",
           .value = "LIST",
           .help = "IPv4 addresses, each with :PORT or without, separated by commas, that names on "
                   "allow-lists are asked of; empty: those of the host's /etc/resolv.conf",
           .may_be_empty = true},
    Option{.name = "id-base",
           .kind = Kind::number,
           .standard = "2000000",
           .value = "N",
           .help = "the first of the host's user and group ids that the node uses",
           .most = kIdMost},
    Option{.name = "storage-driver",
           .kind = Kind::choice,
           .value = "NAME",
           .help = "how the sandboxes' disks are limited; empty: the best that the host can do",
           .section = "Storage and images",
           .choices = "btrfs|btrfs-loop|project-quota|tmpfs",
           .may_be_empty = true},
    Option{.name = "storage-pool-mb",
           .kind = Kind::number,
           .standard = "0",
           .value = "N",
           .help = "size of the btrfs loop file in MiB where the host has neither btrfs nor "
                   "project quota, allocated whole; 0: a quarter of the free disk, 4 to 64 GiB"},
    Option{.name = "image-free-percent",
           .kind = Kind::number,
           .standard = "10",
           .value = "N",
           .help = "with less of the images' disk free, images that no sandbox uses and a "
                   "registry can give again are removed, least recently used first; 0: never",
           .most = kPercentMost},
    Option{.name = "allow-local-images",
           .kind = Kind::boolean,
           .standard = "yes",
           .value = "yes|no",
           .help = "whether images may be dir:/... and tar:/... of this disk (the gateway has "
                   "its own say)"},
};

constexpr std::array kCommands{
    Command{.name = "doctor", .help = "names what this host lacks, and what mends it"},
    Command{.name = "config", .help = "check, show, default or options: see below"},
};

}  // namespace

const Program& node_program() {
  static constexpr Program kProgram{.name = "sandbox-node",
                                    .summary = "runs the sandboxes of this machine (root)",
                                    .variable_prefix = "SANDBOX_NODE_",
                                    .file = "/etc/sandbox-gateway/node.conf",
                                    .options = kOptions,
                                    .commands = kCommands};
  return kProgram;
}

}  // namespace config
