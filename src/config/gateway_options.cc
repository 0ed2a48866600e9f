#include "config/gateway_options.h"

#include <array>

namespace config {
namespace {

// Of all sandboxes together; keeps sums inside 64 bits.
constexpr int64_t kTotalMillicpusMax = 1'000'000'000;
constexpr int64_t kTotalMax = int64_t{1} << 40U;
constexpr int64_t kRetentionDaysMax = 36'500;  // a hundred years
constexpr int64_t kPortMax = 65'535;
constexpr int64_t kDrainDelayMax = 3'600;
constexpr int64_t kDrainPatienceMax =
    int64_t{7} * 24 * 3'600;              // the longest that a command may run
constexpr int64_t kSkewSecondsMax = 300;  // more is a broken clock
constexpr int64_t kSessionSecondsMin = 60;
constexpr int64_t kSessionSecondsMax =
    int64_t{24} * 3'600;  // nothing ends a session that was stolen sooner
// The least is for tests; what is stolen is good for as long.
constexpr int64_t kIdentitySecondsMin = 5;
constexpr int64_t kIdentitySecondsMax = int64_t{24} * 3'600;
constexpr int64_t kIdentityRotationDaysMax = 3'650;
constexpr int64_t kLimitMax = 1'000'000;
constexpr int64_t kMillicpusMax = 1'000'000'000;

constexpr int64_t kBuildSecondsMax = int64_t{7} * 86'400;

constexpr std::array kOptions{
    Option{.name = "state",
           .kind = Kind::path,
           .value = "DIR",
           .help = "all state and sockets under DIR: data in DIR/gateway, the node's in DIR/run; "
                   "empty: /var/lib/sandbox-gateway and /run/sandbox-gateway",
           .section = "Places",
           .may_be_empty = true},
    Option{.name = "listen",
           .kind = Kind::address,
           .standard = "127.0.0.1:8080",
           .value = "ADDRESS:PORT",
           .help = "where the API is served"},
    Option{.name = "metrics-listen",
           .kind = Kind::address,
           .standard = "127.0.0.1:9464",
           .value = "ADDRESS:PORT",
           .help = "where /metrics is served without a token; empty: nowhere",
           .may_be_empty = true},
    Option{.name = "node-socket",
           .kind = Kind::path,
           .value = "PATH",
           .help = "the node's socket; empty: node.sock in the folder of sockets",
           .may_be_empty = true},
    Option{.name = "tls-cert",
           .kind = Kind::path,
           .value = "FILE",
           .help = "the certificate and those between it and its root (PEM): the API is served "
                   "over HTTPS only; looked at every second, a new pair is used at once; "
                   "empty: plain HTTP",
           .section = "HTTPS",
           .may_be_empty = true},
    Option{.name = "tls-key",
           .kind = Kind::path,
           .value = "FILE",
           .help = "its key (PEM, without a password), readable by the gateway's user only",
           .may_be_empty = true},
    Option{.name = "ssh-socket",
           .kind = Kind::path,
           .value = "PATH",
           .help = "where sandbox-ssh asks; empty: gateway.sock in DIR/gateway-ssh, or in "
                   "/run/sandbox-gateway-ssh",
           .section = "SSH",
           .may_be_empty = true},
    Option{.name = "ssh-group",
           .value = "GROUP",
           .help = "the group that may reach that socket, by name or number: one of the gateway's "
                   "own; empty: the gateway's",
           .may_be_empty = true},
    Option{.name = "ssh-host",
           .value = "HOST",
           .help = "where clients find sandbox-ssh; empty: the host that they called the API by",
           .may_be_empty = true},
    Option{.name = "ssh-port",
           .kind = Kind::number,
           .standard = "2222",
           .value = "PORT",
           .help = "and its port there",
           .least = 1,
           .most = kPortMax},
    Option{.name = "drain-delay",
           .kind = Kind::number,
           .standard = "0",
           .value = "SECONDS",
           .help = "after SIGTERM everything is still served for so long, while /readyz answers "
                   "503 and each answer ends its connection: longer than a balancer takes to look",
           .section = "Stopping",
           .most = kDrainDelayMax},
    Option{.name = "drain-patience",
           .kind = Kind::number,
           .standard = "30",
           .value = "SECONDS",
           .help = "behind that, new requests get 503 and what runs may take so long to end; "
                   "another SIGTERM ends the wait",
           .most = kDrainPatienceMax},
    Option{.name = "teams-file",
           .kind = Kind::path,
           .value = "FILE",
           .help =
               "definitions of teams (YAML, docs/teams.md), applied at each start as `sandbox "
               "apply` does it: all of them or, where something is wrong, no start; empty: none",
           .section = "Teams",
           .may_be_empty = true},
    Option{.name = "oidc-issuer",
           .value = "URL",
           .help = "the issuer of OpenID Connect whose tokens people show (docs/sign-in.md), as it "
                   "spells itself; empty: none",
           .section = "Sign-in",
           .may_be_empty = true},
    Option{.name = "oidc-client-id",
           .value = "ID",
           .help = "what the issuer calls this gateway",
           .may_be_empty = true},
    Option{.name = "oidc-client-secret-file",
           .kind = Kind::path,
           .value = "FILE",
           .help = "a file with the secret that the issuer gave it, readable by the gateway's user "
                   "only; empty: a public client",
           .may_be_empty = true},
    Option{.name = "oidc-audience",
           .value = "NAMES",
           .help = "tokens must be made for one of these (separated by commas); empty: for "
                   "oidc-client-id",
           .may_be_empty = true},
    Option{.name = "oidc-subject-claim",
           .standard = "email",
           .value = "CLAIM",
           .help = "the claim that is somebody's name in teams, lists and the audit log; email "
                   "counts only where the issuer has verified it"},
    Option{.name = "oidc-groups-claim",
           .standard = "groups",
           .value = "CLAIM",
           .help = "the claim that lists somebody's groups"},
    Option{.name = "oidc-groups-file",
           .kind = Kind::path,
           .value = "FILE",
           .help = "which group is in which team, with which role (YAML, docs/sign-in.md); empty: "
                   "only the teams' lists of members count",
           .may_be_empty = true},
    Option{.name = "oidc-scopes",
           .standard = "openid email profile",
           .value = "NAMES",
           .help = "what a sign-in by browser asks the issuer for"},
    Option{
        .name = "oidc-ca-file",
        .kind = Kind::path,
        .value = "FILE",
        .help = "authorities (PEM) that the issuer's certificate must be of; empty: the system's",
        .may_be_empty = true},
    Option{.name = "oidc-clock-skew",
           .kind = Kind::number,
           .standard = "60",
           .value = "SECONDS",
           .help = "how far the issuer's clock may be from ours",
           .most = kSkewSecondsMax},
    Option{.name = "public-url",
           .value = "URL",
           .help = "https://HOST[:PORT] where this gateway is reached: the issuer of sandboxes' "
                   "identity tokens (docs/identity.md; empty: the address it listens on), and "
                   "whose /login/callback the issuer of sign-ins has to know (empty: no sign-in by "
                   "browser)",
           .may_be_empty = true},
    Option{.name = "session-lifetime",
           .kind = Kind::number,
           .standard = "3600",
           .value = "SECONDS",
           .help = "how long a browser stays signed in",
           .least = kSessionSecondsMin,
           .most = kSessionSecondsMax},
    Option{.name = "default-image",
           .standard = "agent",
           .value = "NAME",
           .help = "what /api/v1 makes sandboxes from, whose create has no body; agent is what "
                   "`sandbox image build-default` makes",
           .section = "Sandboxes"},
    Option{.name = "default-cpus",
           .kind = Kind::decimal,
           .standard = "1",
           .value = "N",
           .help = "the processors of such a sandbox",
           .least = 1,
           .most = kMillicpusMax},
    Option{.name = "default-memory-mb",
           .kind = Kind::number,
           .standard = "2048",
           .value = "N",
           .help = "its memory in MiB",
           .least = 1},
    Option{.name = "allow-local-images",
           .kind = Kind::boolean,
           .standard = "no",
           .value = "yes|no",
           .help = "whether images may be dir:/... and tar:/... of the node's disk"},
    Option{.name = "registry-mirrors",
           .value = "HOST=MIRROR ...",
           .help = "mirrors that are asked before registries, for teams that have set none of "
                   "their own: docker.io=mirror.example.com, with http:// before one without TLS",
           .may_be_empty = true},
    Option{.name = "credentials",
           .value = "NAMES",
           .help = "shipped templates of credentials that every sandbox gets (docs/identity.md), "
                   "separated by commas: sandbox, for the command line and the clients inside, and "
                   "gatana, for those of /api/v1; empty: none",
           .section = "Identity of sandboxes",
           .may_be_empty = true},
    Option{.name = "credentials-file",
           .kind = Kind::path,
           .value = "FILE",
           .help = "more of them, and which outside services sandboxes may show identity tokens to "
                   "(YAML); empty: none",
           .may_be_empty = true},
    Option{.name = "identity-lifetime",
           .kind = Kind::number,
           .standard = "3600",
           .value = "SECONDS",
           .help = "how long a token of a sandbox is good; credentials inside are made anew when "
                   "half of it is over",
           .least = kIdentitySecondsMin,
           .most = kIdentitySecondsMax},
    Option{.name = "identity-rotation-days",
           .kind = Kind::number,
           .standard = "30",
           .value = "N",
           .help = "a key signs identity tokens for so long; 0: until `sandbox identity rotate`",
           .most = kIdentityRotationDaysMax},
    Option{.name = "build-cpus",
           .kind = Kind::decimal,
           .standard = "2",
           .value = "N",
           .help = "processors of a team's image builder",
           .section = "Image builds",
           .least = 10,
           .most = kMillicpusMax},
    Option{.name = "build-memory-mb",
           .kind = Kind::number,
           .standard = "4096",
           .value = "N",
           .help = "its memory in MiB",
           .least = 256,
           .most = kTotalMax},
    Option{.name = "build-storage-mb",
           .kind = Kind::number,
           .standard = "16384",
           .value = "N",
           .help = "its disk in MiB: base images, the cache of steps, and what is being built",
           .least = 256,
           .most = kTotalMax},
    Option{.name = "build-timeout",
           .kind = Kind::number,
           .standard = "3600",
           .value = "SECONDS",
           .help = "the longest that one build may run",
           .least = 1,
           .most = kBuildSecondsMax},
    Option{.name = "builds-per-team",
           .kind = Kind::number,
           .standard = "4",
           .value = "N",
           .help = "builds of one team that may be under way at once",
           .least = 1,
           .most = kLimitMax},
    Option{.name = "build-cache-idle",
           .kind = Kind::number,
           .standard = "14400",
           .value = "SECONDS",
           .help = "a builder in which nothing was built for so long is removed, with its cache",
           .least = 1,
           .most = kBuildSecondsMax},
    Option{.name = "total-cpus",
           .kind = Kind::decimal,
           .standard = "0",
           .value = "N",
           .help = "processors of all sandboxes of all teams together, beyond which a sandbox is "
                   "queued; 0: no limit",
           .section = "Capacity",
           .most = kTotalMillicpusMax},
    Option{.name = "total-memory-mb",
           .kind = Kind::number,
           .standard = "0",
           .value = "N",
           .help = "their memory in MiB; 0: no limit",
           .most = kTotalMax},
    Option{.name = "total-storage-mb",
           .kind = Kind::number,
           .standard = "0",
           .value = "N",
           .help = "their storage in MiB; 0: no limit",
           .most = kTotalMax},
    Option{.name = "total-sandboxes",
           .kind = Kind::number,
           .standard = "0",
           .value = "N",
           .help = "how many there may be; 0: no limit",
           .most = kTotalMax},
    Option{.name = "store",
           .value = "URL",
           .help = "where records are kept: a path or sqlite:///PATH, or "
                   "postgresql://USER@HOST:PORT/DATABASE, its password rather in PGPASSWORD or a "
                   "passfile than here; empty: gateway.db in the folder of data",
           .section = "Records",
           .may_be_empty = true},
    Option{.name = "master-key-command",
           .value = "COMMAND",
           .help = "a program by its absolute path, and its arguments, separated by blanks; run "
                   "once at each start, it prints the keys of what is sealed in the store, the "
                   "newest last (docs/operate.md); empty: they are in gateway/secret.key",
           .may_be_empty = true},
    Option{.name = "retention-days",
           .kind = Kind::number,
           .standard = "30",
           .value = "N",
           .help = "archived sandboxes and their events are forgotten so many days after their "
                   "deletion; 0: never",
           .most = kRetentionDaysMax},
    Option{.name = "audit-retention-days",
           .kind = Kind::number,
           .standard = "90",
           .value = "N",
           .help = "rows of the audit log and counters of activity are forgotten after so many "
                   "days; 0: never",
           .most = kRetentionDaysMax},
    Option{.name = "rate-limit",
           .kind = Kind::number,
           .standard = "0",
           .value = "N",
           .help = "requests a second of one token, beyond which it is told 429; 0: no limit; like "
                   "those below also set for a single token by PUT /tokens/ID/limits",
           .section = "Limits of a token",
           .most = kLimitMax},
    Option{.name = "rate-burst",
           .kind = Kind::number,
           .standard = "0",
           .value = "N",
           .help = "how many requests it may send at once after a pause; 0: as many as rate-limit",
           .most = kLimitMax},
    Option{.name = "concurrent-creates",
           .kind = Kind::number,
           .standard = "1000",
           .value = "N",
           .help = "creates that one token may wait for at once; 0: no limit",
           .most = kLimitMax},
    Option{.name = "concurrent-streams",
           .kind = Kind::number,
           .standard = "4000",
           .value = "N",
           .help = "WebSockets and followed logs, events and changes that one token may have open "
                   "at once; 0: no limit",
           .most = kLimitMax},
    Option{.name = "body-limit-mb",
           .kind = Kind::number,
           .standard = "0",
           .value = "N",
           .help = "the longest body of a request of one token in MiB, as it is sent; 0: the "
                   "route's own bound only",
           .most = kLimitMax},
    Option{.name = "log-level",
           .kind = Kind::choice,
           .standard = "info",
           .value = "LEVEL",
           .help = "the least level that is logged",
           .section = "Log",
           .choices = "debug|info|warning|error"},
};

constexpr std::array kCommands{
    Command{.name = "migrate",
            .help = "bring the store's schema up to date and end; status: which steps it has; "
                    "--dry-run: what would be done; forget-key: the store takes another secret.key",
            .words = "status|--dry-run|forget-key"},
    Command{.name = "keys",
            .help = "the keys of what is sealed in the store: list; rotate: a new one seals; "
                    "retire: former ones open nothing any more",
            .words = "list|rotate|retire"},
    Command{.name = "config", .help = "check, show, default or options: see below"},
    Command{.name = "audit", .help = "verify [--noted ID:HASH] or head, of the store's audit log"},
};

}  // namespace

const Program& gateway_program() {
  static constexpr Program kProgram{
      .name = "sandbox-gateway",
      .summary = "the API of sandboxes on this machine (unprivileged)",
      .variable_prefix = "SANDBOX_GATEWAY_",
      .file = "/etc/sandbox-gateway/gateway.conf",
      .options = kOptions,
      .commands = kCommands};
  return kProgram;
}

}  // namespace config
