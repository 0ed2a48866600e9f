#include "config/ssh_options.h"

#include <array>

namespace config {
namespace {

constexpr int64_t kSecondsMax = 3'600;
constexpr int64_t kConnectionsMax = 4'000;  // each is a process
constexpr int64_t kChannelsMax = 1'000;

constexpr std::array kOptions{
    Option{.name = "listen",
           .kind = Kind::address,
           .standard = "127.0.0.1:2222",
           .value = "ADDRESS:PORT",
           .help = "where SSH clients connect to",
           .section = "Places"},
    Option{.name = "gateway-socket",
           .kind = Kind::path,
           .standard = "/run/sandbox-gateway-ssh/gateway.sock",
           .value = "PATH",
           .help = "the gateway's ssh-socket"},
    Option{.name = "login-time",
           .kind = Kind::number,
           .standard = "20",
           .value = "SECONDS",
           .help = "how long a client may take to sign in",
           .section = "Limits",
           .least = 1,
           .most = kSecondsMax},
    Option{.name = "keep-alive",
           .kind = Kind::number,
           .standard = "15",
           .value = "SECONDS",
           .help = "a client that has been silent for so long is asked whether it is there; after "
                   "four times as long it is gone",
           .least = 1,
           .most = kSecondsMax},
    Option{.name = "connections",
           .kind = Kind::number,
           .standard = "1000",
           .value = "N",
           .help = "connections at once",
           .least = 1,
           .most = kConnectionsMax},
    Option{.name = "logins",
           .kind = Kind::number,
           .standard = "64",
           .value = "N",
           .help = "connections at once that have not signed in; for one more the oldest is ended",
           .least = 1,
           .most = kConnectionsMax},
    Option{.name = "logins-per-address",
           .kind = Kind::number,
           .standard = "32",
           .value = "N",
           .help = "of them, from one address",
           .least = 1,
           .most = kConnectionsMax},
    Option{.name = "channels",
           .kind = Kind::number,
           .standard = "64",
           .value = "N",
           .help = "sessions and forwarded connections of one connection",
           .least = 1,
           .most = kChannelsMax},
    Option{.name = "log-level",
           .kind = Kind::choice,
           .standard = "info",
           .value = "LEVEL",
           .help = "the least level that is logged",
           .section = "Log",
           .choices = "debug|info|warning|error"},
};

constexpr std::array kCommands{
    Command{.name = "config", .help = "check, show, default or options: see below"},
};

}  // namespace

const Program& ssh_program() {
  static constexpr Program kProgram{.name = "sandbox-ssh",
                                    .summary = "the SSH front of sandbox-gateway (unprivileged)",
                                    .variable_prefix = "SANDBOX_SSH_",
                                    .file = "/etc/sandbox-gateway/ssh.conf",
                                    .options = kOptions,
                                    .commands = kCommands};
  return kProgram;
}

}  // namespace config
