#include "cli/scripted_server_testing.h"

#include <netinet/in.h>
#include <openssl/sha.h>
#include <sys/socket.h>

#include <memory>

#include "base/error.h"
#include "base/sys.h"
#include "wire/http1.h"
#include "wire/websocket.h"

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
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
  for (std::thread& stream : streams_) {
    stream.join();
  }
}

std::string ScriptedServer::url() const { return base::cat("http://127.0.0.1:", port_); }

std::vector<SeenRequest> ScriptedServer::seen() {
  const std::scoped_lock lock(mutex_);
  return seen_;
}

void ScriptedServer::serve() {
  while (true) {
    base::Fd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!socket) {
      return;
    }
    serve_connection(std::move(socket));
  }
}

// One request a connection keeps the script's order plain.
void ScriptedServer::serve_connection(base::Fd connection) {
  const int socket = connection.get();
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
  changed_.notify_all();
  if (answer.drop) {
    return;
  }
  if (!answer.frames.empty()) {
    streams_.emplace_back([this, request = seen_.size() - 1, answer,
                           moved = std::make_shared<base::Fd>(std::move(connection))] {
      serve_frames(std::move(*moved), request, answer);
    });
    return;
  }
  const size_t sent = answer.hang_up ? answer.body.size() / 2 : answer.body.size();
  (void)base::sys::write_all(
      socket, base::cat("HTTP/1.1 ", answer.status,
                        " X\r\nConnection: close\r\nContent-Length: ", answer.body.size(), "\r\n",
                        answer.headers, "\r\n", std::string_view(answer.body).substr(0, sent)));
}

void ScriptedServer::serve_frames(base::Fd connection, size_t request, ScriptedAnswer answer) {
  const int socket = connection.get();
  const std::string head = seen()[request].head;
  const auto parsed = wire::http::parse_request(head);
  const std::string* key = parsed ? parsed->find("sec-websocket-key") : nullptr;
  if (key == nullptr) {
    return;
  }
  const std::string text = *key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";  // RFC 6455 1.3
  unsigned char digest[SHA_DIGEST_LENGTH];
  ::SHA1(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest);
  const std::string accept = base::base64({reinterpret_cast<const char*>(digest), sizeof digest});
  (void)base::sys::write_all(
      socket, base::cat("HTTP/1.1 101 X\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                        "Sec-WebSocket-Accept: ",
                        accept, "\r\n\r\n"));
  std::thread sender([this, socket, request, &answer] {
    wait_and_send(socket, request, answer.frames);
    if (answer.hang_up) {
      ::shutdown(socket, SHUT_RDWR);
    }
  });
  wire::websocket::Decoder decoder(wire::websocket::Role::server, 1 << 20);
  char buffer[65536];
  ssize_t got = 0;
  while ((got = ::read(socket, buffer, sizeof buffer)) > 0) {
    std::string_view bytes(buffer, static_cast<size_t>(got));
    while (!bytes.empty()) {
      const auto step = decoder.next(bytes);
      if (!step) {
        ::abort();  // the client broke the protocol
      }
      bytes.remove_prefix(step->consumed);
      if (step->event) {
        const std::scoped_lock lock(mutex_);
        seen_[request].body += base::cat(step->event->payload, "\n");
      }
    }
    changed_.notify_all();
  }
  {
    const std::scoped_lock lock(mutex_);
    left_.insert(request);
  }
  changed_.notify_all();
  sender.join();
}

void ScriptedServer::wait_and_send(int socket, size_t request,
                                   const std::vector<ScriptedFrames>& frames) {
  for (const auto& [bytes, after_requests, after_bytes] : frames) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] {
        return stopping_ || left_.contains(request) ||
               (seen_.size() >= after_requests && seen_[request].body.size() >= after_bytes);
      });
      if (stopping_ || left_.contains(request)) {
        return;
      }
    }
    (void)base::sys::write_all(socket, bytes);
  }
}

}  // namespace cli
