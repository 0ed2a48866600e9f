#include "cli/scripted_server_testing.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include "base/error.h"
#include "base/sys.h"
#include "wire/http1.h"

namespace cli {

ScriptedServer::ScriptedServer(std::deque<ScriptedAnswer> script) : script_(std::move(script)) {
  listener_ = base::Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  socklen_t size = sizeof address;
  auto* raw = reinterpret_cast<sockaddr*>(&address);
  if (::bind(listener_.get(), raw, size) != 0 || ::listen(listener_.get(), 16) != 0 ||
      ::getsockname(listener_.get(), raw, &size) != 0) {
    ::abort();
  }
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this] { serve(); });
}

ScriptedServer::~ScriptedServer() {
  ::shutdown(listener_.get(), SHUT_RDWR);
  thread_.join();
}

std::string ScriptedServer::url() const { return base::cat("http://127.0.0.1:", port_); }

std::vector<SeenRequest> ScriptedServer::seen() {
  const std::scoped_lock lock(mutex_);
  return seen_;
}

void ScriptedServer::serve() {
  while (true) {
    const base::Fd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!socket) {
      return;
    }
    serve_connection(socket.get());
  }
}

// One request a connection keeps the script's order plain.
void ScriptedServer::serve_connection(int socket) {
  std::string bytes;
  char buffer[65536];
  SeenRequest seen;
  std::optional<wire::http::BodyDecoder> body;
  while (!body || !body->finished()) {
    const ssize_t got = ::read(socket, buffer, sizeof buffer);
    if (got <= 0) {
      return;
    }
    bytes.append(buffer, static_cast<size_t>(got));
    if (!body) {
      const auto head = wire::http::find_head(bytes);
      if (!head || !*head) {
        continue;
      }
      seen.head = bytes.substr(0, **head);
      seen.line = seen.head.substr(0, seen.head.find('\r'));
      bytes.erase(0, **head);
      const auto request = wire::http::parse_request(seen.head);
      if (!request) {
        return;
      }
      body.emplace(*request);
      if (request->expect_continue) {
        (void)base::sys::write_all(socket, "HTTP/1.1 100 Continue\r\n\r\n");
      }
    }
    while (!bytes.empty() && !body->finished()) {
      const auto step = body->next(bytes);
      if (!step || step->consumed == 0) {
        break;
      }
      seen.body += step->payload;
      bytes.erase(0, step->consumed);
    }
  }
  const std::scoped_lock lock(mutex_);
  seen_.push_back(seen);
  if (script_.empty()) {
    return;
  }
  const ScriptedAnswer answer = script_.front();
  script_.pop_front();
  if (answer.drop) {
    return;
  }
  const size_t sent = answer.hang_up ? answer.body.size() / 2 : answer.body.size();
  (void)base::sys::write_all(
      socket, base::cat("HTTP/1.1 ", answer.status,
                        " X\r\nConnection: close\r\nContent-Length: ", answer.body.size(), "\r\n",
                        answer.headers, "\r\n", std::string_view(answer.body).substr(0, sent)));
}

}  // namespace cli
