#include <poll.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "cli/context.h"

namespace cli {

namespace {

constexpr size_t kTokenLineBytesMax = 4096;
constexpr int64_t kIntervalSecondsMax = 60;

// The terminal without echo, as it was again at the end.
class HiddenInput {
 public:
  HiddenInput() {
    if (::tcgetattr(STDIN_FILENO, &before_) == 0) {
      termios hidden = before_;
      hidden.c_lflag &= ~static_cast<tcflag_t>(ECHO);
      changed_ = ::tcsetattr(STDIN_FILENO, TCSAFLUSH, &hidden) == 0;
    }
  }
  HiddenInput(const HiddenInput&) = delete;
  HiddenInput& operator=(const HiddenInput&) = delete;
  ~HiddenInput() {
    if (changed_) {
      ::tcsetattr(STDIN_FILENO, TCSAFLUSH, &before_);
    }
  }

 private:
  termios before_{};
  bool changed_ = false;
};

Result<base::Secret> ask_for_token(Context& context) {
  RETURN_IF_ERROR(context.console.write_error("Token: "));
  const HiddenInput hidden;
  std::string line(kTokenLineBytesMax, '\0');
  RETURN_IF_ERROR(context.interrupt.wait_for(STDIN_FILENO, POLLIN));
  const ssize_t got = ::read(STDIN_FILENO, line.data(), line.size());
  RETURN_IF_ERROR(context.console.write_error("\n"));
  return parse_token(std::string_view(line).substr(0, got > 0 ? static_cast<size_t>(got) : 0));
}

// Shows where to type which code, and waits until the person has done it.
Result<base::Secret> sign_in(Context& context, Api& api) {
  ASSIGN_OR_RETURN(const auto begun,
                   api.call_json({.method = "POST", .target = "/login/device"}, Repeat::no));
  const auto* object = begun.if_object();
  if (object == nullptr) {
    return base::fail(base::ErrorCode::internal, "the gateway's answer is no object");
  }
  const auto complete = field_text(*object, "verification_uri_complete");
  RETURN_IF_ERROR(context.console.write_error(
      base::cat("Open ", field_text(*object, "verification_uri"), " and enter the code ",
                field_text(*object, "user_code"),
                complete.empty() ? "" : base::cat("\n  or open ", complete), "\nWaiting ...\n")));
  const std::string body =
      wire::json::serialize(wire::json::Object{{"attempt", field_text(*object, "attempt")}});
  const auto* interval = object->if_contains("interval_sec");
  const int64_t seconds = interval != nullptr && interval->is_int64()
                              ? std::clamp<int64_t>(interval->get_int64(), 1, kIntervalSecondsMax)
                              : kIntervalSecondsMax;
  while (true) {
    RETURN_IF_ERROR(context.interrupt.sleep_ms(static_cast<int>(seconds) * 1000));
    // Ends with the gateway's error when the time for it is over.
    const auto answer = api.call_json(
        {.method = "POST", .target = "/login/device/token", .body = body}, Repeat::no);
    if (!answer && !is_passing(answer.error())) {
      return std::unexpected(answer.error());
    }
    const auto* ended = answer ? answer->if_object() : nullptr;
    const auto token = ended == nullptr ? "" : field_text(*ended, "token");
    if (!token.empty()) {
      return parse_token(token);
    }
  }
}

Result<base::Secret> get_token(Context& context, const LoginOptions& options, Api& without_token) {
  if (options.oidc) {
    return sign_in(context, without_token);
  }
  if (!context.global.connection.token_file.empty()) {
    return read_token_file(context.global.connection.token_file);
  }
  return ::isatty(STDIN_FILENO) == 1 ? ask_for_token(context) : read_token_file("-");
}

}  // namespace

Result<int> login(Context& context, const LoginOptions& options) {
  std::string url = !options.url.empty() ? options.url : context.global.connection.url;
  if (url.empty()) {
    url = !context.environment.url.empty() ? context.environment.url : std::string(kDefaultUrl);
  }
  Settings settings;
  ASSIGN_OR_RETURN(settings.url, parse_gateway_url(url));
  if (settings.url.starts_with("http://") && !is_loopback_url(settings.url)) {
    context.console.note("warning: the token goes over the network unencrypted; use https://");
  }
  const std::string& ca_file = !context.global.connection.ca_file.empty()
                                   ? context.global.connection.ca_file
                                   : context.environment.ca_file;
  if (!ca_file.empty()) {
    settings.ca_file = std::filesystem::absolute(ca_file);  // used from other folders too
  }
  // A wrong URL or token is better found now than at the first use.
  const Trust trust{.ca_file = settings.ca_file, .insecure = context.global.insecure};
  HttpClient nobody({.url = settings.url, .token = {}, .trust = trust}, context.interrupt);
  Api without_token(nobody, context.interrupt);
  ASSIGN_OR_RETURN(settings.token, get_token(context, options, without_token));
  HttpClient http({.url = settings.url, .token = settings.token, .trust = trust},
                  context.interrupt);
  Api api(http, context.interrupt);
  RETURN_IF_ERROR(api.get_object("/sandboxes?limit=1"));
  RETURN_IF_ERROR(save_settings(context.environment, settings));
  ASSIGN_OR_RETURN(const auto path, config_path(context.environment));
  RETURN_IF_ERROR(print_value(context, wire::json::Object{{"url", settings.url}, {"config", path}},
                              base::cat("logged in to ", settings.url, "\n")));
  return 0;
}

}  // namespace cli
