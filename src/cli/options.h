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
#include "cli/sandbox_target.h"

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
  SandboxTarget sandbox;
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
  SandboxTarget sandbox;
  std::string session;
};
// What ssh(1) is given behind "--".
struct SshCommandOptions {
  std::vector<std::string> argv;
};
struct SshOptions {
  SandboxTarget sandbox;
  SshCommandOptions command;
};
struct SshConfigOptions {
  SandboxTarget sandbox;
  std::string name;  // of the entry; empty: the id
};
struct SshProxyOptions {
  SandboxTarget sandbox;
  bool host_key = false;  // prints it instead
};
// A port of 127.0.0.1 here, 0 for a free one, and the one there that it stands for.
struct PortPair {
  uint16_t local = 0;
  uint16_t remote = 0;
};
struct ForwardOptions {
  SandboxTarget sandbox;
  std::string host;
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
  SandboxTarget sandbox;
  std::string name;
  CommandOptions command;
  std::optional<int64_t> log_limit_mb;
};
struct SessionListOptions {
  SandboxTarget sandbox;
  bool quiet = false;
};
struct SessionGetOptions {
  SandboxTarget sandbox;
  std::string session;
  int64_t wait_sec = 0;
};
struct SessionLogsOptions {
  SandboxTarget sandbox;
  std::string session;
  std::string stream = "both";
  uint64_t offset = 0;
  bool follow = false;
};
struct SessionAttachOptions {
  SandboxTarget sandbox;
  std::string session;
  std::optional<uint64_t> offset;  // default: what is said from now on
  bool read_input = true;
};
struct SessionWriteOptions {
  SandboxTarget sandbox;
  std::string session;
  std::optional<std::string> text;  // default: standard input
  bool end = false;                 // the session's input ends after it
};
struct SessionKillOptions {
  SandboxTarget sandbox;
  std::string session;
  std::string signal = "TERM";
};
struct SessionResizeOptions {
  SandboxTarget sandbox;
  std::string session;
  int columns = 0;
  int rows = 0;
};
struct SessionRemoveOptions {
  SandboxTarget sandbox;
  std::vector<std::string> sessions;
};
struct FileListOptions {
  SandboxTarget sandbox;
  std::string path, user;
  int64_t depth = 1;
  bool names_only = false;
};
struct FileStatOptions {
  SandboxTarget sandbox;
  std::string path, user;
};
struct FileRemoveOptions {
  SandboxTarget sandbox;
  std::string user;
  std::vector<std::string> paths;
  bool recursive = false;
};
struct FolderMakeOptions {
  SandboxTarget sandbox;
  std::string user, mode;
  std::vector<std::string> paths;
};
struct FileMoveOptions {
  SandboxTarget sandbox;
  std::string from, to, user;
  bool replace = true;
};
struct FileModeOptions {
  SandboxTarget sandbox;
  std::string mode, user;
  std::vector<std::string> paths;
  bool recursive = false;
};
struct FileWatchOptions {
  SandboxTarget sandbox;
  std::string path, user;
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
