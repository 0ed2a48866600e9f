// sandbox-ssh: the SSH front of the gateway. Reads its settings, opens its socket, confines itself,
// runs.
#include <libssh/libssh.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/standard_streams.h"
#include "base/sys.h"
#include "config/command_line.h"
#include "config/ssh_options.h"
#include "main/process.h"
#include "net/listener.h"
#include "ssh/confinement.h"
#include "ssh/front.h"

namespace {

using base::Result;

constexpr int kBacklog = 1024;

base::LogLevel log_level(const config::Settings& settings) {
  const std::string& name = settings.text("log-level");
  return name == "debug"     ? base::LogLevel::debug
         : name == "warning" ? base::LogLevel::warning
         : name == "error"   ? base::LogLevel::error
                             : base::LogLevel::info;
}

ssh::Options options_of(const config::Settings& settings) {
  const auto count = [&settings](std::string_view name) {
    return static_cast<size_t>(settings.number(name));
  };
  return {.listen = settings.text("listen"),
          .gateway_socket = settings.text("gateway-socket"),
          .login_time = std::chrono::seconds(settings.number("login-time")),
          .keep_alive = std::chrono::seconds(settings.number("keep-alive")),
          .connections_max = count("connections"),
          .logins_max = count("logins"),
          .logins_per_address_max = count("logins-per-address"),
          .channels_max = count("channels")};
}

// The library reads its settings when it first needs them: while there still are files.
void warm_up() {
  ::ssh_init();
  ssh_key key = nullptr;
  if (::ssh_pki_generate(SSH_KEYTYPE_ED25519, 0, &key) == SSH_OK) {
    ::ssh_key_free(key);
  }
}

net::Task<void> serve(net::EventLoop& loop, ssh::Front& front, int signals) {
  front.start();
  co_await loop.wait(signals, net::EventLoop::Direction::read, net::Deadline::never());
  process::take_signal(signals);
  co_await front.stop();
  loop.forget(signals);
  loop.stop();
}

Result<void> run(const config::Settings& settings) {
  ssh::Options options = options_of(settings);
  base::Log log(STDERR_FILENO, log_level(settings));
  process::raise_file_limit();
  ASSIGN_OR_RETURN(auto signals, process::catch_signals());
  ASSIGN_OR_RETURN(auto socket, net::listen_tcp(options.listen, kBacklog));
  warm_up();
  ASSIGN_OR_RETURN(options.gateway_socket, ssh::confine_front(options.gateway_socket));
  net::EventLoop loop;
  ssh::Front front(loop, options, log, std::move(socket));
  net::TaskGroup group(loop);
  group.spawn(serve(loop, front, signals.get()));
  loop.run();
  while (group.size() > 0) {
    loop.run_once(base::Milliseconds(10));
  }
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  base::hold_standard_streams();
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const auto variable = [](const std::string& name) { return ::getenv(name.c_str()); };
  const auto asked = config::read_command_line(config::ssh_program(), arguments, variable, nullptr);
  if (asked.exit) {
    return *asked.exit;
  }
  if (const auto done = run(asked.settings); !done) {
    ::fprintf(stderr, "sandbox-ssh: %s\n", done.error().message.c_str());
    return 1;
  }
  return 0;
}
