// Which words each command takes and where their values go, in CLI11's terms. Pure.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/options.h"

namespace CLI {
class App;
}

namespace cli {

// Where CLI11 puts values while it parses.
struct Storage {
  GlobalOptions global;
  std::string output;
  LoginOptions login;
  CreateOptions create;
  ListOptions list;
  GetOptions get;
  RunOptions run;
  ExecOptions exec;
  CopyOptions copy;
  EventsOptions events;
  RemoveOptions remove;
  ImagePullOptions image_pull;
  ImageListOptions image_list;
  ImageRemoveOptions image_remove;
  ImageImportOptions image_import;
  BuildOptions build;
  BuildListOptions build_list;
  ImageBuildDefaultOptions image_build_default;
  ImageGcOptions image_gc;
  QuotaOptions quota;
  ReplicasOptions replicas;
  VersionOptions version;
  CompletionOptions completion;
  ShellOptions shell;
  SshOptions ssh;
  SshConfigOptions ssh_config;
  SshProxyOptions ssh_proxy;
  ForwardOptions forward;
  LogsOptions logs;
  MetricsOptions metrics;
  NetworkOptions network;
  ActivityOptions activity;
  AuditOptions audit;
  AuditExportOptions audit_export;
  AuditVerifyOptions audit_verify;
  AuditHeadOptions audit_head;
  SessionStartOptions session_start;
  SessionListOptions session_list;
  SessionGetOptions session_get;
  SessionLogsOptions session_logs;
  SessionAttachOptions session_attach;
  SessionWriteOptions session_write;
  SessionKillOptions session_kill;
  SessionResizeOptions session_resize;
  SessionRemoveOptions session_remove;
  FileListOptions file_list;
  FileStatOptions file_stat;
  FileRemoveOptions file_remove;
  FolderMakeOptions folder_make;
  FileMoveOptions file_move;
  FileModeOptions file_mode;
  FileWatchOptions file_watch;
  TeamListOptions team_list;
  TeamGetOptions team_get;
  TeamCreateOptions team_create;
  TeamUpdateOptions team_update;
  TeamDeleteOptions team_delete;
  TeamMembersOptions team_members;
  TokenListOptions token_list;
  TokenCreateOptions token_create;
  TokenRevokeOptions token_revoke;
  TokenLimitsOptions token_limits;
  IdentityTokenOptions identity_token;
  IdentityKeysOptions identity_keys;
  IdentityRotateOptions identity_rotate;
  SignInListOptions sign_in_list;
  SignInEndOptions sign_in_end;
  ApplyOptions apply;
  MeOptions me;

  // Of the command that was named: its options, and where the words behind "--" belong (nullptr:
  // it takes none).
  std::function<Invocation()> take;
  std::vector<std::string>* argv = nullptr;
};

// Words a value is one of.
extern const std::vector<std::string> kOutputs, kShells, kNetworks, kPulls, kStates, kStreams;

void build_grammar(CLI::App& root, Storage& to);
// "create", "image pull".
std::string full_name(const CLI::App* app);
// The positional before "--" of a command that takes one behind it ("ID"); "" of the others.
std::string_view word_before_command(std::string_view name);

// The parts of build_grammar.
void add_lifecycle_commands(CLI::App& root, Storage& to);
void add_work_commands(CLI::App& root, Storage& to);
void add_audit_commands(CLI::App& root, Storage& to);
void add_ssh_commands(CLI::App& root, Storage& to);
void add_session_commands(CLI::App& root, Storage& to);
void add_file_commands(CLI::App& root, Storage& to);
void add_team_commands(CLI::App& root, Storage& to);
void add_other_commands(CLI::App& root, Storage& to);

}  // namespace cli
