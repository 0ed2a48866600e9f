// ssh, ssh-config, ssh-proxy: OpenSSH's client through the gateway's API. The proxy signs in with
// the gateway's own token, so no user name or key is needed, and no other port.
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "cli/context.h"
#include "cli/format.h"
#include "cli/output_queue.h"
#include "cli/web_socket.h"

namespace cli {

using base::ErrorCode;
using wire::websocket::Event;
using wire::websocket::Opcode;

namespace {

constexpr size_t kReadBytes = size_t{32} * 1024;
// What is on its way to the gateway before more is read.
constexpr size_t kUnsentBytesMax = size_t{256} * 1024;
constexpr int kLookMilliseconds = 60'000;

std::string shell_word(std::string_view word) {
  std::string out = "'";
  for (const char c : word) {
    out += c == '\'' ? "'\\''" : std::string(1, c);
  }
  return out + "'";
}

// '%' stands for something of the client's in its settings.
std::string percents_doubled(std::string_view words) {
  std::string out;
  for (const char c : words) {
    out += c == '%' ? "%%" : std::string(1, c);
  }
  return out;
}

// Whether the client replaces what stands behind '%' in the program of a setting too: it does where
// a shell runs it (ProxyCommand), not where it starts it itself (KnownHostsCommand).
enum class ProgramPercents : std::uint8_t { replaced, kept };

// This program with the gateway that was chosen, as a shell's words.
Result<std::string> own_command(const Context& context, std::string_view rest,
                                ProgramPercents percents) {
  std::array<char, PATH_MAX> path{};
  const ssize_t size = ::readlink("/proc/self/exe", path.data(), path.size());
  if (size <= 0) {
    return base::fail_errno(errno, "find this program");
  }
  const std::string program = shell_word({path.data(), static_cast<size_t>(size)});
  std::string words = base::cat(" ", rest, " --url ", shell_word(context.http.endpoint().url));
  const ConnectionFlags& flags = context.global.connection;
  if (!flags.ca_file.empty()) {
    words += base::cat(" --ca-file ", shell_word(flags.ca_file));
  }
  if (!flags.token_file.empty() && flags.token_file != "-") {
    words += base::cat(" --token-file ", shell_word(flags.token_file));
  }
  if (context.global.insecure) {
    words += " --insecure";
  }
  return (percents == ProgramPercents::replaced ? percents_doubled(program) : program) +
         percents_doubled(words);
}

// What may stand behind Host: one name, which no other host has, and which ssh(1) takes for one.
bool is_entry_name(std::string_view name) {
  constexpr std::string_view kMeaning = "*?!,#%\"'\\";
  return base::is_utf8(name) && !name.starts_with('-') && std::ranges::all_of(name, [&](char c) {
           return (c < '\0' || c > ' ') && c != '\x7F' && !kMeaning.contains(c);
         });
}

struct Setting {
  std::string_view name;
  std::string value;
};

// What makes ssh(1) come through the gateway and know its host key.
Result<std::vector<Setting>> settings_of(const Context& context, const SandboxTarget& sandbox) {
  std::string words = shell_word(sandbox.id);
  if (!sandbox.container.empty()) {
    words += base::cat(" --container ", shell_word(sandbox.container));
  }
  ASSIGN_OR_RETURN(auto proxy,
                   own_command(context, "ssh-proxy " + words, ProgramPercents::replaced));
  ASSIGN_OR_RETURN(auto key,
                   own_command(context, "ssh-proxy --host-key " + words, ProgramPercents::kept));
  return std::vector<Setting>{{"ProxyCommand", std::move(proxy)},
                              {"KnownHostsCommand", std::move(key)},
                              {"HostKeyAlias", sandbox.id},
                              {"UserKnownHostsFile", "/dev/null"},
                              {"GlobalKnownHostsFile", "/dev/null"},
                              {"StrictHostKeyChecking", "yes"},
                              {"UpdateHostKeys", "no"},
                              {"CheckHostIP", "no"},
                              {"ServerAliveInterval", "15"}};
}

Result<wire::json::Object> new_session(Context& context, const SandboxTarget& sandbox) {
  ASSIGN_OR_RETURN(
      auto answer,
      context.api.call_json({.method = "POST", .target = sandbox_target(sandbox, "/ssh-session")},
                            Repeat::no));
  if (!answer.is_object()) {
    return base::fail(ErrorCode::internal, "the gateway's answer is not an SSH session");
  }
  return std::move(answer.get_object());
}

// Bytes of this process's input to the gateway and back, until either ends.
class Proxy {
 public:
  Proxy(Context& context, WebSocket& socket)
      : context_(context), socket_(socket), output_(context.console) {}

  Result<int> run() {
    const auto take = [this](const Event& event) -> Result<void> {
      if (event.kind == Event::Kind::binary) {
        output_.add(Channel::output, event.payload);
      }
      return {};
    };
    for (;;) {
      if (!output_.full()) {
        const auto more = socket_.receive(take);
        if (!more && more.error().code == ErrorCode::connection_closed) {
          return finish();
        }
        RETURN_IF_ERROR(more);
        has_more_ = *more;
      }
      RETURN_IF_ERROR(output_.flush());
      RETURN_IF_ERROR(socket_.flush());
      RETURN_IF_ERROR(wait());
      ASSIGN_OR_RETURN(const bool goes_on, read_input());
      if (!goes_on) {
        return 0;
      }
    }
  }

 private:
  Result<void> wait() {
    std::vector<pollfd> waits{{context_.interrupt.fd(), POLLIN, 0}};
    if (!output_.full()) {
      waits.push_back({socket_.fd(), socket_.wanted(), 0});
    } else if (socket_.unsent() > 0) {
      waits.push_back({socket_.fd(), POLLOUT, 0});
    }
    if (socket_.unsent() < kUnsentBytesMax) {
      waits.push_back({STDIN_FILENO, POLLIN, 0});
    }
    output_.add_waits(waits);
    const bool at_once = has_more_ && !output_.full();
    ::poll(waits.data(), waits.size(), at_once ? 0 : kLookMilliseconds);
    return context_.interrupt.check();
  }

  // False at its end: the client has gone.
  Result<bool> read_input() {
    pollfd input{STDIN_FILENO, POLLIN, 0};
    if (socket_.unsent() >= kUnsentBytesMax || ::poll(&input, 1, 0) <= 0) {
      return true;
    }
    std::array<char, kReadBytes> buffer;
    const ssize_t size = ::read(STDIN_FILENO, buffer.data(), buffer.size());
    if (size > 0) {
      socket_.queue(Opcode::binary, {buffer.data(), static_cast<size_t>(size)});
      return true;
    }
    return size < 0 && (errno == EINTR || errno == EAGAIN);
  }

  Result<int> finish() {
    while (!output_.empty()) {
      std::vector<pollfd> waits{{context_.interrupt.fd(), POLLIN, 0}};
      output_.add_waits(waits);
      ::poll(waits.data(), waits.size(), kLookMilliseconds);
      RETURN_IF_ERROR(context_.interrupt.check());
      RETURN_IF_ERROR(output_.flush());
    }
    return 0;
  }

  Context& context_;
  WebSocket& socket_;
  OutputQueue output_;
  bool has_more_ = false;
};

}  // namespace

Result<int> ssh(Context& context, const SshOptions& options) {
  ASSIGN_OR_RETURN(const auto settings, settings_of(context, options.sandbox));
  std::vector<std::string> words{"ssh"};
  for (const Setting& setting : settings) {
    words.emplace_back("-o");
    words.push_back(base::cat(setting.name, "=", setting.value));
  }
  words.push_back(base::cat("sandbox@", options.sandbox.id));
  words.insert(words.end(), options.command.argv.begin(), options.command.argv.end());
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (std::string& word : words) {
    argv.push_back(word.data());
  }
  argv.push_back(nullptr);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGPIPE, SIG_DFL);
  ::execvp(argv.front(), argv.data());
  return base::fail_errno(errno, "start ssh (OpenSSH's client)");
}

Result<int> ssh_config(Context& context, const SshConfigOptions& options) {
  if (!is_entry_name(options.name)) {
    return base::fail(ErrorCode::invalid_field,
                      "--name takes one name without blanks, quotes and signs of patterns");
  }
  // Says so now where the sandbox is not there or SSH is off.
  RETURN_IF_ERROR(new_session(context, options.sandbox));
  ASSIGN_OR_RETURN(const auto settings, settings_of(context, options.sandbox));
  std::string text = base::cat("Host ", options.name.empty() ? options.sandbox.id : options.name,
                               "\n  HostName ", options.sandbox.id, "\n  User sandbox\n");
  for (const Setting& setting : settings) {
    text += base::cat("  ", setting.name, " ", setting.value, "\n");
  }
  RETURN_IF_ERROR(context.console.write_out(text));
  return 0;
}

Result<int> ssh_proxy(Context& context, const SshProxyOptions& options) {
  if (options.host_key) {
    ASSIGN_OR_RETURN(const auto session, new_session(context, options.sandbox));
    RETURN_IF_ERROR(
        context.console.write_out(base::cat("* ", field_text(session, "hostKey"), "\n")));
    return 0;
  }
  ASSIGN_OR_RETURN(const auto socket, WebSocket::connect(context.http.endpoint(),
                                                         sandbox_target(options.sandbox, "/ssh"),
                                                         context.interrupt, context.random));
  return Proxy(context, *socket).run();
}

}  // namespace cli
