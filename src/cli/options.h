// What each command was asked to do: values only, filled by the grammar and read by the command.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/error.h"
#include "cli/config.h"
#include "cli/format.h"

namespace cli {

using base::Result;

inline constexpr double kDefaultCpus = 1;
inline constexpr int64_t kDefaultMemoryMb = 512;
// As many as one looks through by eye.
inline constexpr int64_t kAuditRowsDefault = 100;

struct GlobalOptions {
  ConnectionFlags connection;
  bool insecure = false;
  OutputFormat output = OutputFormat::automatic;
};

struct LoginOptions {
  std::string url;
  bool oidc = false;
};
struct CreateOptions {
  std::string image;                 // or:
  std::vector<std::string> compose;  // files
  std::optional<double> cpus;
  std::optional<int64_t> memory_mb;
  std::optional<int64_t> storage_mb;
  std::vector<std::string> labels;
  std::vector<std::string> env;
  std::vector<std::string> env_files;
  std::string user, workdir, network, pull, team;
  std::vector<std::string> allow;
  std::optional<int64_t> lease_sec, max_lifetime_sec;
  bool wait = true;
};
// What exec and run share of a command.
struct CommandOptions {
  std::vector<std::string> argv;
  std::vector<std::string> env;
  std::vector<std::string> env_files;
  std::string user, cwd;
  std::optional<int64_t> timeout_sec;
  bool read_input = true;
  bool interactive = false;  // reads standard input even if that is a terminal
  bool terminal = false;
};
struct ExecOptions {
  std::string id;
  CommandOptions command;
};
struct RunOptions {
  CreateOptions create;
  CommandOptions command;
};
struct ListOptions {
  std::string state, image, owner, team;
  std::vector<std::string> labels;
  int64_t limit = 0;  // 0: all
  bool all = false;
  bool all_teams = false;
  bool quiet = false;
};
struct GetOptions {
  std::string id;
  int64_t wait_sec = 0;
};
struct CopyOptions {
  std::string source, destination, mode, user, container;
  bool recursive = false;
  std::optional<bool> compress;  // of a folder; by default where the gateway is not on this machine
};
struct ShellOptions {
  std::string id, session;
};
// What ssh(1) is given behind "--".
struct SshCommandOptions {
  std::vector<std::string> argv;
};
struct SshOptions {
  std::string id;
  SshCommandOptions command;
};
struct SshConfigOptions {
  std::string id;
  std::string name;  // of the entry; empty: the id
};
struct SshProxyOptions {
  std::string id;
  bool host_key = false;  // prints it instead
};
// A port of 127.0.0.1 here, 0 for a free one, and the one there that it stands for.
struct PortPair {
  uint16_t local = 0;
  uint16_t remote = 0;
};
struct ForwardOptions {
  std::string id, host;
  std::vector<PortPair> ports;
};
struct LogsOptions {
  std::string id, container;
  bool follow = false;
};
struct NetworkOptions {
  std::string id, mode;
  std::vector<std::string> allow;
};
struct MetricsOptions {
  std::string id;
};
// Whose rows: the own team's where nothing is given.
struct TeamScope {
  std::string team;
  bool all_teams = false;
};
struct ActivityOptions {
  std::string id;  // empty: of the team
  std::string from, to;
  std::optional<int64_t> step_sec;
  TeamScope scope;
};
struct AuditFilterOptions {
  std::string event, caller, sandbox, from, until, result, text;
  TeamScope scope;
};
struct AuditOptions {
  std::string id;  // empty: of the team
  AuditFilterOptions filter;
  int64_t limit = kAuditRowsDefault;
};
struct AuditExportOptions {
  std::string file;  // empty or "-": standard output
  AuditFilterOptions filter;
};
struct AuditVerifyOptions {
  std::string file;   // of an export; empty: what the gateway has
  std::string noted;  // ID:HASH
};
struct AuditHeadOptions {};
struct SessionStartOptions {
  std::string id, name;
  CommandOptions command;
  std::optional<int64_t> log_limit_mb;
};
struct SessionListOptions {
  std::string id;
  bool quiet = false;
};
struct SessionGetOptions {
  std::string id, session;
  int64_t wait_sec = 0;
};
struct SessionLogsOptions {
  std::string id, session;
  std::string stream = "both";
  uint64_t offset = 0;
  bool follow = false;
};
struct SessionAttachOptions {
  std::string id, session;
  std::optional<uint64_t> offset;  // default: what is said from now on
  bool read_input = true;
};
struct SessionWriteOptions {
  std::string id, session;
  std::optional<std::string> text;  // default: standard input
  bool end = false;                 // the session's input ends after it
};
struct SessionKillOptions {
  std::string id, session;
  std::string signal = "TERM";
};
struct SessionResizeOptions {
  std::string id, session;
  int columns = 0;
  int rows = 0;
};
struct SessionRemoveOptions {
  std::string id;
  std::vector<std::string> sessions;
};
struct FileListOptions {
  std::string id, path, user;
  int64_t depth = 1;
  bool names_only = false;
};
struct FileStatOptions {
  std::string id, path, user;
};
struct FileRemoveOptions {
  std::string id, user;
  std::vector<std::string> paths;
  bool recursive = false;
};
struct FolderMakeOptions {
  std::string id, user, mode;
  std::vector<std::string> paths;
};
struct FileMoveOptions {
  std::string id, from, to, user;
  bool replace = true;
};
struct FileModeOptions {
  std::string id, mode, user;
  std::vector<std::string> paths;
  bool recursive = false;
};
struct FileWatchOptions {
  std::string id, path, user;
  bool recursive = false;
};
struct EventsOptions {
  std::string id;
  bool follow = false;
};
struct RemoveOptions {
  std::vector<std::string> ids;
  bool wait = true;
};
struct ImagePullOptions {
  std::string reference;
};
struct ImageListOptions {
  bool quiet = false;
};
struct ImageRemoveOptions {
  std::vector<std::string> names;
};
struct ImageImportOptions {
  std::string file, name;
};
struct ImageBuildDefaultOptions {
  bool small = false;
  bool rebuild = false;
  std::string name = "agent";  // the gateway's own --default-image
  std::string base, cache, recipe;
};
struct ImageGcOptions {};
struct BuildOptions {
  std::string folder;  // a folder, a Dockerfile, or "-": a tar from standard input
  std::string dockerfile, target, team;
  std::string dockerfile_text;  // sent along; of a compose file
  std::vector<std::string> arguments;
  std::vector<std::string> secrets;  // "id=ID,src=FILE", "id=ID,env=VARIABLE"
  std::vector<std::string> keys;     // "ID=FILE"
  bool quiet = false;
  bool wait = true;
};
struct BuildListOptions {
  std::string team;
  int64_t limit = 0;  // 0: all
  bool all_teams = false;
  bool quiet = false;
};
struct QuotaOptions {};
struct ReplicasOptions {};
struct VersionOptions {};
struct CompletionOptions {
  std::string shell;
};
// What a team is to be: a file, over it single fields.
struct TeamDefinitionOptions {
  std::string file;
  std::vector<std::string> settings;  // "quota.cpus=8"
};
struct TeamListOptions {
  bool all = false;
  bool quiet = false;
};
struct TeamGetOptions {
  std::string name;
};
struct TeamCreateOptions {
  std::string name;
  TeamDefinitionOptions definition;
};
struct TeamUpdateOptions {
  std::string name;
  TeamDefinitionOptions definition;
};
struct TeamDeleteOptions {
  std::vector<std::string> names;
};
struct TeamMembersOptions {
  std::string name;
  std::vector<std::string> added, removed;
  std::string role = "member";
};
struct TokenListOptions {
  std::string team;
  bool all = false;
  bool quiet = false;
};
struct TokenCreateOptions {
  std::string name, team, subject, role;
  std::vector<std::string> scopes;
  std::optional<int64_t> expires_sec;
  bool every_team = false;
};
struct TokenRevokeOptions {
  std::vector<std::string> ids;
};
struct TokenLimitsOptions {
  std::string id;
  // What is not given stays as it is; 0 is no limit.
  std::optional<int64_t> rate, burst, creates, streams, body_mb;
  bool reset = false;
};
struct IdentityTokenOptions {
  std::string id;
  std::string audience;  // "": the gateway's own
};
struct IdentityKeysOptions {};
struct IdentityRotateOptions {};
struct SignInListOptions {
  std::string subject;
  bool all = false;
  bool quiet = false;
};
struct SignInEndOptions {
  std::vector<std::string> ids;
  std::string subject;  // of `all`
  bool all = false;
};
struct ApplyOptions {
  std::string file;
  bool dry_run = false;
  bool yes = false;
  bool prune = false;
};
struct MeOptions {};
// --help and --version: text for standard output.
struct ShowText {
  std::string text;
};

using Invocation = std::variant<
    ShowText, LoginOptions, CreateOptions, ListOptions, GetOptions, RunOptions, ExecOptions,
    CopyOptions, EventsOptions, RemoveOptions, ImagePullOptions, ImageListOptions,
    ImageRemoveOptions, ImageImportOptions, ImageBuildDefaultOptions, ImageGcOptions, BuildOptions,
    BuildListOptions, QuotaOptions, ReplicasOptions, VersionOptions, CompletionOptions,
    ShellOptions, SshOptions, SshConfigOptions, SshProxyOptions, ForwardOptions, LogsOptions,
    MetricsOptions, NetworkOptions, ActivityOptions, AuditOptions, AuditExportOptions,
    AuditVerifyOptions, AuditHeadOptions, SessionStartOptions, SessionListOptions,
    SessionGetOptions, SessionLogsOptions, SessionAttachOptions, SessionWriteOptions,
    SessionKillOptions, SessionResizeOptions, SessionRemoveOptions, FileListOptions,
    FileStatOptions, FileRemoveOptions, FolderMakeOptions, FileMoveOptions, FileModeOptions,
    FileWatchOptions, TeamListOptions, TeamGetOptions, TeamCreateOptions, TeamUpdateOptions,
    TeamDeleteOptions, TeamMembersOptions, TokenListOptions, TokenCreateOptions, TokenRevokeOptions,
    TokenLimitsOptions, IdentityTokenOptions, IdentityKeysOptions, IdentityRotateOptions,
    SignInListOptions, SignInEndOptions, ApplyOptions, MeOptions>;

}  // namespace cli
