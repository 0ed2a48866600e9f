#include <poll.h>
#include <termios.h>
#include <unistd.h>

#include "cli/context.h"

namespace cli {

namespace {

constexpr size_t kTokenLineBytesMax = 4096;

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

}  // namespace

Result<int> login(Context& context, const LoginOptions& options) {
  std::string url = !options.url.empty() ? options.url : context.global.url;
  if (url.empty()) {
    url = !context.environment.url.empty() ? context.environment.url : std::string(kDefaultUrl);
  }
  Settings settings;
  ASSIGN_OR_RETURN(settings.url, parse_gateway_url(url));
  if (settings.url.starts_with("http://") && !is_loopback_url(settings.url)) {
    context.console.note("warning: the token goes over the network unencrypted; use https://");
  }
  if (!context.global.token_file.empty()) {
    ASSIGN_OR_RETURN(settings.token, read_token_file(context.global.token_file));
  } else if (::isatty(STDIN_FILENO) == 1) {
    ASSIGN_OR_RETURN(settings.token, ask_for_token(context));
  } else {
    ASSIGN_OR_RETURN(settings.token, read_token_file("-"));
  }
  // A wrong URL or token is better found now than at the first use.
  HttpClient http(settings.url, settings.token, context.interrupt);
  Api api(http, context.interrupt);
  RETURN_IF_ERROR(api.get_object("/sandboxes?limit=1"));
  RETURN_IF_ERROR(save_settings(context.environment, settings));
  ASSIGN_OR_RETURN(const auto path, config_path(context.environment));
  RETURN_IF_ERROR(print_value(context, wire::json::Object{{"url", settings.url}, {"config", path}},
                              base::cat("logged in to ", settings.url, "\n")));
  return 0;
}

}  // namespace cli
