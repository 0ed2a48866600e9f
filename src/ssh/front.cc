#include "ssh/front.h"

#include <errno.h>
#include <fcntl.h>
#include <libssh/libssh.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <utility>

#include "ssh/confinement.h"

namespace ssh {
namespace {

using base::ErrorCode;
using net::Deadline;
using net::EventLoop;
using std::chrono::steady_clock;

// Clients speak first, as the protocol allows them to; the few that wait for us get so long.
constexpr base::Milliseconds kFirstWord{500};
constexpr base::Milliseconds kRetryPause{1'000};
constexpr base::Milliseconds kTellPause{10'000};
// Curves only: their cost is small and the same for both sides.
constexpr const char* kKeyExchange =
    "curve25519-sha256,curve25519-sha256@libssh.org,ecdh-sha2-nistp256,ecdh-sha2-nistp384,"
    "ecdh-sha2-nistp521";
constexpr const char* kCiphers =
    "chacha20-poly1305@openssh.com,aes128-gcm@openssh.com,aes256-gcm@openssh.com,aes128-ctr,"
    "aes192-ctr,aes256-ctr";
constexpr const char* kMacs =
    "hmac-sha2-256-etm@openssh.com,hmac-sha2-512-etm@openssh.com,hmac-sha2-256,hmac-sha2-512";

// OpenSSH's client tells that the reader of its output is gone only to servers that are called so
// (compat.c: "OpenSSH*"). No version: nothing is worked around.
constexpr const char* kBanner = "OpenSSH-compatible_SandboxGateway";

ssh_bind make_bind(const std::string& host_key) {
  ssh_key key = nullptr;
  const ssh_bind bind = ::ssh_bind_new();
  const bool no = false;
  const std::array<std::pair<ssh_bind_options_e, const char*>, 6> texts{
      {{SSH_BIND_OPTIONS_BANNER, kBanner},
       {SSH_BIND_OPTIONS_KEY_EXCHANGE, kKeyExchange},
       {SSH_BIND_OPTIONS_CIPHERS_C_S, kCiphers},
       {SSH_BIND_OPTIONS_CIPHERS_S_C, kCiphers},
       {SSH_BIND_OPTIONS_HMAC_C_S, kMacs},
       {SSH_BIND_OPTIONS_HMAC_S_C, kMacs}}};
  bool is_fine = bind != nullptr &&
                 ::ssh_pki_import_privkey_base64(host_key.c_str(), nullptr, nullptr, nullptr,
                                                 &key) == SSH_OK &&
                 ::ssh_bind_options_set(bind, SSH_BIND_OPTIONS_PROCESS_CONFIG, &no) == SSH_OK &&
                 ::ssh_bind_options_set(bind, SSH_BIND_OPTIONS_IMPORT_KEY, key) == SSH_OK;
  for (const auto& [option, text] : texts) {
    is_fine = is_fine && ::ssh_bind_options_set(bind, option, text) == SSH_OK;
  }
  return is_fine ? bind : nullptr;
}

// Only these two are left open, beside the log.
void keep_only(base::Fd& socket, base::Fd& report) {
  constexpr int kSocket = 3;
  constexpr int kReport = 4;
  constexpr int kAbove = 16;
  const int high_socket = ::fcntl(socket.release(), F_DUPFD_CLOEXEC, kAbove);
  const int high_report = ::fcntl(report.release(), F_DUPFD_CLOEXEC, kAbove);
  ::dup3(high_socket, kSocket, O_CLOEXEC);
  ::dup3(high_report, kReport, O_CLOEXEC);
  ::close_range(kReport + 1, ~0U, 0);
  socket = base::Fd(kSocket);
  report = base::Fd(kReport);
}

// A goodbye that is on its way would be lost if the socket were closed with bytes unread.
Task<void> linger(net::EventLoop& loop, base::Fd socket) {
  net::Stream stream(loop, std::move(socket));
  stream.shutdown_write();
  const Deadline deadline = Deadline::after(kGoodbyePatience);
  std::array<char, 4096> rest;
  for (;;) {
    const auto size = co_await stream.read_some(rest, deadline);
    if (!size || *size == 0) {
      co_return;
    }
  }
}

Task<void> run_client(net::EventLoop& loop, Client& client, base::Fd copy) {
  co_await client.run();
  co_await linger(loop, std::move(copy));
  loop.stop();
}

// In the process that serves it, which ends here.
[[noreturn]] void serve_client(const Options& options, base::Log& log, ssh_bind bind,
                               Arrival& arrival, base::Fd report) {
  keep_only(arrival.socket, report);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  if (const auto confined = confine_client(); !confined) {
    log.error("a client's process cannot be confined", {{"error", confined.error().message}});
    ::_exit(1);
  }
  base::Fd copy(::fcntl(arrival.socket.get(), F_DUPFD_CLOEXEC, 0));
  net::EventLoop loop;
  net::TaskGroup group(loop);
  Client client(loop, options, log, bind, std::move(arrival), std::move(report));
  group.spawn(run_client(loop, client, std::move(copy)));
  loop.run();
  ::_exit(0);  // with all that is under way
}

bool has_ended(int socket) {
  char byte = 0;
  return ::recv(socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

}  // namespace

Front::Front(net::EventLoop& loop, const Options& options, base::Log& log, base::Fd listening)
    : loop_(loop),
      options_(options),
      log_(log),
      listener_(loop, std::move(listening)),
      logins_(options),
      group_(loop) {
  ::ssh_set_log_level(SSH_LOG_NOLOG);
}

void Front::start() { group_.spawn(keep_to_gateway()); }

Task<void> Front::stop() {
  group_.cancel();
  co_await group_.join();
  for (const auto& [id, one] : served_) {
    loop_.forget(one.process.report());
  }
  served_.clear();
}

// --- the gateway ---------------------------------------------------------------------------------

Task<void> Front::keep_to_gateway() {
  const auto* const cancellation = co_await net::current_cancellation();
  bool was_there = true;
  while (!cancellation->requested()) {
    const auto ended = co_await follow_gateway();
    if (was_there && !ended) {
      log_.warning("the gateway is not there", {{"error", ended.error().message}});
    }
    was_there = ended.has_value();
    [[maybe_unused]] const auto wake = co_await loop_.sleep_until(Deadline::after(kRetryPause));
  }
}

// Until it has gone.
Task<Result<void>> Front::follow_gateway() {
  Gateway gateway(loop_, options_.gateway_socket);
  CO_ASSIGN_OR_RETURN(const auto held, co_await gateway.ask({.method = "GET", .target = "/front"}));
  base::Fd copy(::fcntl(held.stream->fd(), F_DUPFD_CLOEXEC, 0));
  if (!copy) {
    co_return base::fail_errno(errno, "duplicate the gateway's connection");
  }
  net::JsonLines lines(loop_, std::move(copy));
  CO_RETURN_IF_ERROR(lines.send({{"hello", true}}));
  net::TaskGroup telling(loop_, co_await net::current_cancellation());
  telling.spawn(tell_dropped(lines));
  Result<void> done;
  for (;;) {
    auto line = co_await lines.read(Deadline::never());
    if (!line || !*line) {
      break;
    }
    if ((*line)->object.contains("host_key")) {
      done = take_host_key((*line)->object);
    } else {
      take_tunnel(std::move(**line));
    }
    if (!done) {
      break;
    }
  }
  telling.cancel();
  co_await telling.join();
  co_return done;
}

Task<void> Front::tell_dropped(net::JsonLines& lines) {
  for (;;) {
    const auto wake = co_await loop_.sleep_until(Deadline::after(kTellPause));
    if (wake == EventLoop::Wake::cancelled) {
      co_return;
    }
    if (dropped_ > 0) {
      [[maybe_unused]] const auto sent =
          lines.send({{"dropped", static_cast<int64_t>(std::exchange(dropped_, 0))}});
    }
  }
}

Result<void> Front::take_host_key(const wire::json::Object& line) {
  wire::json::Reader reader(line);
  ASSIGN_OR_RETURN(const auto key, reader.required<std::string>("host_key"));
  const ssh_bind bind = make_bind(key);
  if (bind == nullptr) {
    return base::fail(ErrorCode::internal, "the host key cannot be used");
  }
  // The store's, and another one than before where it has forgotten its secrets.
  if (const ssh_bind former = std::exchange(bind_, bind); former != nullptr) {
    ::ssh_bind_free(former);
    return {};
  }
  group_.spawn(accept_all());
  log_.info("SSH front serves", {{"port", int64_t{listener_.port()}}});
  return {};
}

// A client that the gateway has let in already.
void Front::take_tunnel(net::JsonLines::Line line) {
  wire::json::Reader reader(line.object);
  auto token = reader.required<std::string>("token");
  auto remote = reader.required<std::string>("remote");
  if (!token || !remote || line.fds.size() != 1 || served_.size() >= options_.connections_max) {
    return;
  }
  if (::fcntl(line.fds.front().get(), F_SETFL, O_NONBLOCK) == 0) {
    serve({.socket = std::move(line.fds.front()),
           .remote = std::move(*remote),
           .token = std::move(*token)},
          ++last_id_);
  }
}

// --- clients -------------------------------------------------------------------------------------

Task<void> Front::accept_all() {
  for (;;) {
    auto client = co_await listener_.accept();
    if (!client) {
      if (client.error().code != ErrorCode::cancelled) {
        log_.error("the listener failed", {{"error", client.error().message}});
      }
      co_return;
    }
    std::string address = net::peer_address(client->get());
    group_.spawn(receive(std::move(*client), std::move(address)));
  }
}

// Costs a descriptor until it has said something.
Task<void> Front::receive(base::Fd socket, std::string address) {
  if (served_.size() + waiting_.size() >= options_.connections_max) {
    ++dropped_;
    co_return;
  }
  const Logins::Id id = ++last_id_;
  if (const auto leaves = logins_.begin(id, address)) {
    drop(*leaves);
  }
  waiting_[id] = socket.get();
  if (const auto wait = logins_.wait_of(address, steady_clock::now()); wait.count() > 0) {
    co_await loop_.sleep_until(Deadline::after(wait));
  }
  co_await loop_.wait(socket.get(), EventLoop::Direction::read, Deadline::after(kFirstWord));
  loop_.forget(socket.get());
  const bool is_wanted = waiting_.erase(id) > 0;
  if (!is_wanted || has_ended(socket.get())) {
    logins_.end(id);
    co_return;
  }
  serve({.socket = std::move(socket), .remote = std::move(address), .token = {}}, id);
}

void Front::serve(Arrival arrival, Logins::Id id) {
  std::string address = arrival.remote;
  auto process = jail::ForkedProcess::start(
      [&](base::Fd report) { serve_client(options_, log_, bind_, arrival, std::move(report)); });
  if (!process) {
    logins_.end(id);
    log_.error("a client cannot be served", {{"error", process.error().message}});
    return;
  }
  served_.emplace(id, Served{.address = std::move(address), .process = std::move(*process)});
  listen_to(id);
}

void Front::listen_to(Logins::Id id) {
  loop_.watch(served_.at(id).process.report(), EventLoop::Direction::read,
              [this, id] { note_report(id); });
}

void Front::note_report(Logins::Id id) {
  const auto found = served_.find(id);
  if (found == served_.end()) {
    return;
  }
  char what = 0;
  const ssize_t size = ::read(found->second.process.report(), &what, 1);
  if (size == 0 || (size < 0 && errno != EAGAIN)) {
    logins_.end(id);
    loop_.forget(found->second.process.report());
    const int status = found->second.process.end();
    if (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL && WTERMSIG(status) != SIGTERM) {
      log_.error("a client's process crashed", {{"signal", WTERMSIG(status)}});
    }
    served_.erase(found);
    return;
  }
  if (size == 1 && what == static_cast<char>(Report::signed_in)) {
    logins_.end(id);
    logins_.note_success(found->second.address);
  } else if (size == 1 && what == static_cast<char>(Report::refused)) {
    logins_.note_refusal(found->second.address, steady_clock::now());
  }
  listen_to(id);
}

// One that had its time, for others.
void Front::drop(Logins::Id id) {
  ++dropped_;
  if (const auto waiting = waiting_.find(id); waiting != waiting_.end()) {
    ::shutdown(waiting->second, SHUT_RDWR);
    waiting_.erase(waiting);
    return;
  }
  if (const auto served = served_.find(id); served != served_.end()) {
    loop_.forget(served->second.process.report());
    served_.erase(served);
  }
}

}  // namespace ssh
