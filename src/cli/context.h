// What every command gets, and the commands themselves. Each takes its options and answers with
// the program's exit code, or with the error that is shown in one line and makes it 125.
#pragma once

#include "base/clock.h"
#include "base/random.h"
#include "cli/api.h"
#include "cli/config.h"
#include "cli/console.h"
#include "cli/interrupt.h"
#include "cli/options.h"
#include "cli/sandbox_target.h"

namespace cli {

inline constexpr int kExitTimedOut = 124;
inline constexpr int kExitOwnError = 125;
inline constexpr int kExitSignalBase = 128;

struct Context {
  HttpClient& http;
  Api& api;
  Console& console;
  Interrupt& interrupt;
  const base::Clock& clock;
  base::Random& random;
  const GlobalOptions& global;
  const Environment& environment;
};

Result<int> login(Context& context, const LoginOptions& options);
Result<int> create(Context& context, const CreateOptions& options);
Result<int> list(Context& context, const ListOptions& options);
Result<int> get(Context& context, const GetOptions& options);
Result<int> run(Context& context, const RunOptions& options);
Result<int> exec(Context& context, const ExecOptions& options);
Result<int> copy(Context& context, const CopyOptions& options);
Result<int> events(Context& context, const EventsOptions& options);
Result<int> remove(Context& context, const RemoveOptions& options);
Result<int> image_pull(Context& context, const ImagePullOptions& options);
Result<int> image_list(Context& context, const ImageListOptions& options);
Result<int> image_remove(Context& context, const ImageRemoveOptions& options);
Result<int> image_import(Context& context, const ImageImportOptions& options);
Result<int> image_build_default(Context& context, const ImageBuildDefaultOptions& options);
Result<int> image_gc(Context& context, const ImageGcOptions& options);
Result<int> build(Context& context, const BuildOptions& options);
Result<int> build_list(Context& context, const BuildListOptions& options);
// As build() without printing: the build, which has succeeded. Interrupted, it is cancelled.
Result<wire::json::Object> finish_build(Context& context, const BuildOptions& options);
Result<int> quota(Context& context, const QuotaOptions& options);
Result<int> replicas(Context& context, const ReplicasOptions& options);
Result<int> version(Context& context, const VersionOptions& options);
Result<int> completion(Context& context, const CompletionOptions& options);
Result<int> shell(Context& context, const ShellOptions& options);
Result<int> ssh(Context& context, const SshOptions& options);
Result<int> ssh_config(Context& context, const SshConfigOptions& options);
Result<int> ssh_proxy(Context& context, const SshProxyOptions& options);
Result<int> forward(Context& context, const ForwardOptions& options);
Result<int> logs(Context& context, const LogsOptions& options);
Result<int> metrics(Context& context, const MetricsOptions& options);
Result<int> network(Context& context, const NetworkOptions& options);
Result<int> activity(Context& context, const ActivityOptions& options);
Result<int> audit(Context& context, const AuditOptions& options);
Result<int> audit_export(Context& context, const AuditExportOptions& options);
Result<int> audit_verify(Context& context, const AuditVerifyOptions& options);
Result<int> audit_head(Context& context, const AuditHeadOptions& options);
Result<int> session_start(Context& context, const SessionStartOptions& options);
Result<int> session_list(Context& context, const SessionListOptions& options);
Result<int> session_get(Context& context, const SessionGetOptions& options);
Result<int> session_logs(Context& context, const SessionLogsOptions& options);
Result<int> session_attach(Context& context, const SessionAttachOptions& options);
Result<int> session_write(Context& context, const SessionWriteOptions& options);
Result<int> session_kill(Context& context, const SessionKillOptions& options);
Result<int> session_resize(Context& context, const SessionResizeOptions& options);
Result<int> session_remove(Context& context, const SessionRemoveOptions& options);
Result<int> file_list(Context& context, const FileListOptions& options);
Result<int> file_stat(Context& context, const FileStatOptions& options);
Result<int> file_remove(Context& context, const FileRemoveOptions& options);
Result<int> folder_make(Context& context, const FolderMakeOptions& options);
Result<int> file_move(Context& context, const FileMoveOptions& options);
Result<int> file_mode(Context& context, const FileModeOptions& options);
Result<int> file_watch(Context& context, const FileWatchOptions& options);
Result<int> team_list(Context& context, const TeamListOptions& options);
Result<int> team_get(Context& context, const TeamGetOptions& options);
Result<int> team_create(Context& context, const TeamCreateOptions& options);
Result<int> team_update(Context& context, const TeamUpdateOptions& options);
Result<int> team_delete(Context& context, const TeamDeleteOptions& options);
Result<int> team_members(Context& context, const TeamMembersOptions& options);
Result<int> token_list(Context& context, const TokenListOptions& options);
Result<int> token_create(Context& context, const TokenCreateOptions& options);
Result<int> token_revoke(Context& context, const TokenRevokeOptions& options);
Result<int> token_limits(Context& context, const TokenLimitsOptions& options);
Result<int> identity_token(Context& context, const IdentityTokenOptions& options);
Result<int> identity_keys(Context& context);
Result<int> identity_rotate(Context& context);
Result<int> sign_in_list(Context& context, const SignInListOptions& options);
Result<int> sign_in_end(Context& context, const SignInEndOptions& options);
Result<int> apply(Context& context, const ApplyOptions& options);
Result<int> me(Context& context, const MeOptions& options);

// The value as JSON or YAML, or `table` when that is what was asked for or nothing was.
Result<void> print_value(Context& context, const wire::json::Value& value,
                         const std::string& table);

}  // namespace cli
