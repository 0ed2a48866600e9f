#include "cli/application.h"

#include <signal.h>

#include <cerrno>

#include "cli/command_line.h"
#include "cli/context.h"

namespace cli {

using base::ErrorCode;
using base::fail;

namespace {

// One overload a command, so that the variant's visitor cannot forget one.
struct Dispatch {
  Context& context;
  Result<int> operator()(const ShowText& text) const {
    RETURN_IF_ERROR(context.console.write_out(text.text));
    return 0;
  }
  Result<int> operator()(const LoginOptions& options) const { return login(context, options); }
  Result<int> operator()(const CreateOptions& options) const { return create(context, options); }
  Result<int> operator()(const ListOptions& options) const { return list(context, options); }
  Result<int> operator()(const GetOptions& options) const { return get(context, options); }
  Result<int> operator()(const RunOptions& options) const { return run(context, options); }
  Result<int> operator()(const ExecOptions& options) const { return exec(context, options); }
  Result<int> operator()(const CopyOptions& options) const { return copy(context, options); }
  Result<int> operator()(const EventsOptions& options) const { return events(context, options); }
  Result<int> operator()(const RemoveOptions& options) const { return remove(context, options); }
  Result<int> operator()(const ImagePullOptions& options) const {
    return image_pull(context, options);
  }
  Result<int> operator()(const ImageListOptions& options) const {
    return image_list(context, options);
  }
  Result<int> operator()(const ImageRemoveOptions& options) const {
    return image_remove(context, options);
  }
  Result<int> operator()(const ImageImportOptions& options) const {
    return image_import(context, options);
  }
  Result<int> operator()(const ImageBuildDefaultOptions& options) const {
    return image_build_default(context, options);
  }
  Result<int> operator()(const ImageGcOptions& options) const { return image_gc(context, options); }
  Result<int> operator()(const BuildOptions& options) const { return build(context, options); }
  Result<int> operator()(const BuildListOptions& options) const {
    return build_list(context, options);
  }
  Result<int> operator()(const QuotaOptions& options) const { return quota(context, options); }
  Result<int> operator()(const ReplicasOptions& options) const {
    return replicas(context, options);
  }
  Result<int> operator()(const VersionOptions& options) const { return version(context, options); }
  Result<int> operator()(const CompletionOptions& options) const {
    return completion(context, options);
  }
  Result<int> operator()(const ShellOptions& options) const { return shell(context, options); }
  Result<int> operator()(const SshOptions& options) const { return ssh(context, options); }
  Result<int> operator()(const SshConfigOptions& options) const {
    return ssh_config(context, options);
  }
  Result<int> operator()(const SshProxyOptions& options) const {
    return ssh_proxy(context, options);
  }
  Result<int> operator()(const ForwardOptions& options) const { return forward(context, options); }
  Result<int> operator()(const LogsOptions& options) const { return logs(context, options); }
  Result<int> operator()(const MetricsOptions& options) const { return metrics(context, options); }
  Result<int> operator()(const NetworkOptions& options) const { return network(context, options); }
  Result<int> operator()(const ActivityOptions& options) const {
    return activity(context, options);
  }
  Result<int> operator()(const AuditOptions& options) const { return audit(context, options); }
  Result<int> operator()(const AuditExportOptions& options) const {
    return audit_export(context, options);
  }
  Result<int> operator()(const AuditVerifyOptions& options) const {
    return audit_verify(context, options);
  }
  Result<int> operator()(const AuditHeadOptions& options) const {
    return audit_head(context, options);
  }
  Result<int> operator()(const SessionStartOptions& options) const {
    return session_start(context, options);
  }
  Result<int> operator()(const SessionListOptions& options) const {
    return session_list(context, options);
  }
  Result<int> operator()(const SessionGetOptions& options) const {
    return session_get(context, options);
  }
  Result<int> operator()(const SessionLogsOptions& options) const {
    return session_logs(context, options);
  }
  Result<int> operator()(const SessionAttachOptions& options) const {
    return session_attach(context, options);
  }
  Result<int> operator()(const SessionWriteOptions& options) const {
    return session_write(context, options);
  }
  Result<int> operator()(const SessionKillOptions& options) const {
    return session_kill(context, options);
  }
  Result<int> operator()(const SessionResizeOptions& options) const {
    return session_resize(context, options);
  }
  Result<int> operator()(const SessionRemoveOptions& options) const {
    return session_remove(context, options);
  }
  Result<int> operator()(const FileListOptions& options) const {
    return file_list(context, options);
  }
  Result<int> operator()(const FileStatOptions& options) const {
    return file_stat(context, options);
  }
  Result<int> operator()(const FileRemoveOptions& options) const {
    return file_remove(context, options);
  }
  Result<int> operator()(const FolderMakeOptions& options) const {
    return folder_make(context, options);
  }
  Result<int> operator()(const FileMoveOptions& options) const {
    return file_move(context, options);
  }
  Result<int> operator()(const FileModeOptions& options) const {
    return file_mode(context, options);
  }
  Result<int> operator()(const FileWatchOptions& options) const {
    return file_watch(context, options);
  }
  Result<int> operator()(const TeamListOptions& options) const {
    return team_list(context, options);
  }
  Result<int> operator()(const TeamGetOptions& options) const { return team_get(context, options); }
  Result<int> operator()(const TeamCreateOptions& options) const {
    return team_create(context, options);
  }
  Result<int> operator()(const TeamUpdateOptions& options) const {
    return team_update(context, options);
  }
  Result<int> operator()(const TeamDeleteOptions& options) const {
    return team_delete(context, options);
  }
  Result<int> operator()(const TeamMembersOptions& options) const {
    return team_members(context, options);
  }
  Result<int> operator()(const TokenListOptions& options) const {
    return token_list(context, options);
  }
  Result<int> operator()(const TokenCreateOptions& options) const {
    return token_create(context, options);
  }
  Result<int> operator()(const TokenRevokeOptions& options) const {
    return token_revoke(context, options);
  }
  Result<int> operator()(const TokenLimitsOptions& options) const {
    return token_limits(context, options);
  }
  Result<int> operator()(const IdentityTokenOptions& options) const {
    return identity_token(context, options);
  }
  Result<int> operator()(const IdentityKeysOptions&) const { return identity_keys(context); }
  Result<int> operator()(const IdentityRotateOptions&) const { return identity_rotate(context); }
  Result<int> operator()(const SignInListOptions& options) const {
    return sign_in_list(context, options);
  }
  Result<int> operator()(const SignInEndOptions& options) const {
    return sign_in_end(context, options);
  }
  Result<int> operator()(const ApplyOptions& options) const { return apply(context, options); }
  Result<int> operator()(const MeOptions& options) const { return me(context, options); }
};

template <typename... Options>
bool is_one_of(const Invocation& invocation) {
  return (std::holds_alternative<Options>(invocation) || ...);
}

Result<int> invoke(const ParsedCommandLine& parsed, const Environment& environment,
                   Console& console, Interrupt& interrupt, const base::Clock& clock,
                   base::Random& random) {
  const bool offline = is_one_of<ShowText, CompletionOptions, LoginOptions>(parsed.invocation);
  Settings settings{.url = std::string(kDefaultUrl)};
  if (!offline) {
    ASSIGN_OR_RETURN(settings, load_settings(environment, parsed.global.connection));
    if (settings.token.empty() && !is_one_of<VersionOptions>(parsed.invocation)) {
      return fail(ErrorCode::unauthenticated, "no token for ", settings.url,
                  ": run 'sandbox login' or set SANDBOX_GATEWAY_TOKEN");
    }
  }
  const Trust trust{.ca_file = settings.ca_file, .insecure = parsed.global.insecure};
  HttpClient http({.url = settings.url, .token = settings.token, .trust = trust}, interrupt);
  Api api(http, interrupt);
  Context context{.http = http,
                  .api = api,
                  .console = console,
                  .interrupt = interrupt,
                  .clock = clock,
                  .random = random,
                  .global = parsed.global,
                  .environment = environment};
  return std::visit(Dispatch{context}, parsed.invocation);
}

}  // namespace

std::string describe_error(const base::Error& error) {
  std::string text = base::cat("error: ", base::to_string(error.code), ": ", error.message);
  for (const auto& [key, value] : error.details) {
    // Worth quoting to an operator when it was not the caller's mistake.
    if (key == "request_id" && base::http_status(error.code) >= 500) {
      text += base::cat(" (request ", value, ")");
    }
  }
  return text;
}

Result<void> print_value(Context& context, const wire::json::Value& value,
                         const std::string& table) {
  switch (context.global.output) {
    case OutputFormat::json:
      return context.console.write_out(format_json(value));
    case OutputFormat::yaml:
      return context.console.write_out(format_yaml(value));
    default:
      return context.console.write_out(table);
  }
}

int run_application(const std::vector<std::string>& words, const Environment& environment,
                    Console& console, Interrupt& interrupt, const base::Clock& clock,
                    base::Random& random) {
  Result<int> outcome = 0;
  if (const auto parsed = parse_command_line(words)) {
    outcome = invoke(*parsed, environment, console, interrupt, clock, random);
  } else {
    outcome = std::unexpected(parsed.error());
  }
  if (outcome) {
    return *outcome;
  }
  if (outcome.error().code == ErrorCode::cancelled && interrupt.signal() != 0) {
    return kExitSignalBase + interrupt.signal();
  }
  // Whoever read our output has seen enough.
  if (outcome.error().errno_value != EPIPE) {
    console.note(describe_error(outcome.error()));
  }
  return kExitOwnError;
}

}  // namespace cli
