#include "ssh/client.h"

#include <unistd.h>

#include <algorithm>
#include <array>

namespace ssh {
namespace {

using net::Deadline;

// OpenSSH tries some keys before it gives up; only the first attempt is listened to.
constexpr size_t kReasonBytesMax = 1024;

ssh_session accept(ssh_bind bind, int socket) {
  const ssh_session session = ::ssh_new();
  if (session != nullptr && ::ssh_bind_accept_fd(bind, session, socket) != SSH_OK) {
    return nullptr;
  }
  return session;
}

}  // namespace

Client::Client(net::EventLoop& loop, const Options& options, base::Log& log, ssh_bind bind,
               Arrival arrival, base::Fd report)
    : loop_(loop),
      options_(options),
      log_(log),
      gateway_(loop, options.gateway_socket),
      arrival_(std::move(arrival)),
      report_(std::move(report)),
      group_(loop) {
  if (const ssh_session session = accept(bind, arrival_.socket.release()); session != nullptr) {
    transport_ = std::make_unique<Transport>(loop, session, options);
    forwards_ =
        std::make_unique<Forwards>(*transport_, gateway_, account_, [this] { return has_room(); });
  }
}

Task<void> Client::run() {
  if (transport_) {
    group_.spawn(limit_login_time());
    co_await transport_->run([this](Message message) { take(std::move(message)); });
    log_.debug("SSH connection ended", {{"remote", arrival_.remote},
                                        {"signed_in", signed_in_},
                                        {"error", ::ssh_get_error(transport_->session())}});
  }
}

void Client::say(Report what) {
  const char byte = static_cast<char>(what);
  [[maybe_unused]] const ssize_t size = ::write(report_.get(), &byte, 1);
}

bool Client::has_room() const {
  return sessions_.size() + forwards_->channels() < options_.channels_max;
}

Task<void> Client::limit_login_time() {
  const auto wake = co_await loop_.sleep_until(Deadline::after(options_.login_time));
  if (wake == net::EventLoop::Wake::deadline && !signed_in_) {
    transport_->disconnect("the login took too long");
  }
}

void Client::take(Message message) {
  switch (::ssh_message_type(message.get())) {
    case SSH_REQUEST_AUTH:
      begin_login(std::move(message));
      return;
    case SSH_REQUEST_CHANNEL_OPEN:
      take_open(std::move(message));
      return;
    case SSH_REQUEST_CHANNEL:
      take_channel_request(std::move(message));
      return;
    case SSH_REQUEST_GLOBAL:
      forwards_->take_global(std::move(message));
      return;
    default:
      ::ssh_message_reply_default(message.get());
      transport_->touched();
  }
}

// --- login ---------------------------------------------------------------------------------------

// Whatever the method: the token is the user name, or came before. A key or a password says nothing
// more.
void Client::begin_login(Message message) {
  if (login_begun_) {
    transport_->disconnect("one login at a time");
    return;
  }
  login_begun_ = true;
  const char* const name = ::ssh_message_auth_user(message.get());
  std::string token = !arrival_.token.empty() ? arrival_.token
                      : name == nullptr       ? std::string()
                                              : std::string(name);
  group_.spawn(login(std::move(message), std::move(token)));
}

Task<void> Client::login(Message message, std::string token) {
  auto held = co_await gateway_.ask({.method = "POST",
                                     .target = "/connections",
                                     .bearer = std::move(token),
                                     .address = arrival_.remote});
  if (transport_->ended()) {
    co_return;
  }
  if (!held) {
    co_await refuse(std::move(message), held.error().message);
    co_return;
  }
  account_.secret = held->connection;
  signed_in_ = true;
  ::ssh_message_auth_reply_success(message.get(), 0);
  message.reset();
  transport_->start_keep_alive();
  transport_->touched();
  say(Report::signed_in);
  co_await hold_connection(std::move(*held));
}

Task<void> Client::refuse(Message message, std::string reason) {
  say(Report::refused);
  log_.info("SSH login refused", {{"remote", arrival_.remote}, {"reason", reason}});
  [[maybe_unused]] const auto wake = co_await loop_.sleep_until(Deadline::after(kRefusalPause));
  if (transport_->ended()) {
    co_return;
  }
  const ssh_string banner = ::ssh_string_from_char(base::cat("sandbox: ", reason, "\n").c_str());
  ::ssh_send_issue_banner(transport_->session(), banner);
  ::ssh_string_free(banner);
  ::ssh_message_reply_default(message.get());
  // Otherwise a client would ask for a password now, or show its keys one after the other.
  transport_->disconnect(reason);
}

// The gateway holds the connection: its end is the end here.
Task<void> Client::hold_connection(GatewayStream held) {
  std::string reason = std::move(held.early);
  std::array<char, kReasonBytesMax> buffer;
  while (reason.size() < kReasonBytesMax && !reason.contains('\n')) {
    const auto size = co_await held.stream->read_some(buffer, Deadline::never());
    if (!size || *size == 0) {
      break;
    }
    reason.append(buffer.data(), *size);
  }
  reason = reason.substr(0, reason.find('\n'));
  transport_->disconnect(reason.empty() ? "the gateway has ended the connection" : reason);
}

// --- channels ------------------------------------------------------------------------------------

void Client::take_open(Message message) {
  const int kind = ::ssh_message_subtype(message.get());
  if (signed_in_ && kind == SSH_CHANNEL_DIRECT_TCPIP) {
    forwards_->connect(std::move(message));
    return;
  }
  const bool is_session = signed_in_ && kind == SSH_CHANNEL_SESSION && has_room();
  const ssh_channel channel =
      is_session ? ::ssh_message_channel_request_open_reply_accept(message.get()) : nullptr;
  if (channel == nullptr) {
    ::ssh_message_reply_default(message.get());
  } else {
    group_.spawn(serve_session(channel));
  }
  transport_->touched();
}

Task<void> Client::serve_session(ssh_channel channel) {
  CommandChannel session(*transport_, channel, gateway_, account_);
  const auto place = sessions_.insert(sessions_.end(), &session);
  co_await session.serve();
  sessions_.erase(place);
}

void Client::take_channel_request(Message message) {
  const ssh_channel channel = ::ssh_message_channel_request_channel(message.get());
  const auto found = std::ranges::find(sessions_, channel, &CommandChannel::handle);
  if (found == sessions_.end()) {
    ::ssh_message_reply_default(message.get());
  } else {
    (*found)->take(message.get());
  }
  transport_->touched();
}

}  // namespace ssh
