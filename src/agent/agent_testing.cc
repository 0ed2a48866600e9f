#include "agent/agent_testing.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <array>
#include <future>

#include "agent/server.h"
#include "base/log.h"
#include "base/sys.h"

namespace agent {
namespace {

net::Task<void> serve_then_stop(Server* server, net::EventLoop* loop) {
  co_await server->serve();
  loop->stop();
}

}  // namespace

wire::json::Object Answer::json() const {
  auto object = wire::json::parse_object(body);
  EXPECT_TRUE(object.has_value()) << status << " " << body.substr(0, 300);
  return object ? *object : wire::json::Object{};
}

std::string Answer::error_code() const {
  const auto object = json();
  const auto* error = object.if_contains("error");
  return error == nullptr ? "" : std::string(error->at("code").as_string());
}

std::string Answer::header(std::string_view name) const {
  const std::string* value = head.find(name);
  return value == nullptr ? "" : *value;
}

TestClient::TestClient(const std::string& socket_path) {
  auto socket = base::sys::connect_unix(socket_path, false);
  EXPECT_TRUE(socket.has_value());
  socket_ = std::move(*socket);
}

void TestClient::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count <= 0) {
      return;  // refused early: the answer tells
    }
    bytes.remove_prefix(static_cast<size_t>(count));
  }
}

void TestClient::send(const Asked& asked) {
  std::string head =
      base::cat(asked.method, " ", asked.target, " HTTP/1.1\r\nhost: agent\r\n", asked.headers);
  if (!asked.body.empty() || asked.method == "PUT" || asked.method == "POST") {
    head += base::cat("content-length: ", asked.body.size(), "\r\n");
  }
  send(head + "\r\n" + asked.body);
}

bool TestClient::read_more() {
  std::array<char, 65536> piece;
  const ssize_t count = ::read(socket_.get(), piece.data(), piece.size());
  buffer_.append(piece.data(), static_cast<size_t>(std::max<ssize_t>(count, 0)));
  return count > 0;
}

bool TestClient::wait_for(std::string_view text) {
  while (buffer_.find(text) == std::string::npos) {
    if (!read_more()) {
      return false;
    }
  }
  return true;
}

void TestClient::wait_for_bytes(size_t count) {
  while (buffer_.size() < count && read_more()) {
  }
}

Answer TestClient::receive(std::string_view method) {
  Answer answer;
  std::optional<size_t> size;
  while (!size) {
    auto found = wire::http::find_head(buffer_);
    size = found ? *found : std::nullopt;
    if (!size && !read_more()) {
      return answer;
    }
  }
  auto response = wire::http::parse_response(std::string_view(buffer_).substr(0, *size), method);
  EXPECT_TRUE(response.has_value());
  buffer_.erase(0, *size);
  answer.status = response->status;
  answer.head = *response;
  wire::http::BodyDecoder decoder(*response);
  size_t at = 0;
  while (!decoder.finished()) {
    auto step = decoder.next(std::string_view(buffer_).substr(at));
    if (step && step->consumed == 0) {
      buffer_.erase(0, std::exchange(at, 0));
      if (read_more()) {
        continue;
      }
    }
    if (!step || step->consumed == 0) {
      return answer;
    }
    answer.body += step->payload;
    at += step->consumed;
  }
  buffer_.erase(0, at);
  answer.whole = true;
  return answer;
}

void TestClient::half_close() { ::shutdown(socket_.get(), SHUT_WR); }

TestAgent::TestAgent(Config config, StreamPatience patience) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  // Of the whole process, or the signal goes to a thread that drops it.
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  ::umask(0);
  std::string name = "/tmp/agent-test-XXXXXX";
  EXPECT_NE(::mkdtemp(name.data()), nullptr);
  folder_ = name;
  ::chmod(folder_.c_str(), 0755);
  if (config.workdir == "/") {
    config.workdir = folder_;
  }
  std::promise<void> ready;
  thread_ = std::thread([this, &ready, patience, config = std::move(config)]() mutable {
    auto listener = base::sys::listen_unix(socket_path(), 0600, 64);
    ASSERT_TRUE(listener && base::sys::set_nonblocking(listener->get()));
    net::EventLoop loop;
    // A helper is a script of its working directory: this program is no agent.
    Agent agent(loop, AgentOptions{.config = std::move(config),
                                   .program = base::Fd(::open("/bin/sh", O_PATH | O_CLOEXEC)),
                                   .patience = patience});
    Server server(agent, std::move(*listener));
    net::TaskGroup group(loop);
    stop_ = [&loop, &group] { loop.post([&group] { group.cancel(); }); };
    group.spawn(serve_then_stop(&server, &loop));
    ready.set_value();
    loop.run();
    while (group.size() > 0) {
      loop.run_once(base::Milliseconds(10));
    }
    stop_told_.get_future().wait();
  });
  ready.get_future().wait();
}

TestAgent::~TestAgent() {
  stop_();
  stop_told_.set_value();
  thread_.join();
  [[maybe_unused]] const auto removed = base::sys::remove_tree(folder_);
}

Answer TestAgent::ask(const Asked& asked) const {
  TestClient client(socket_path());
  client.send(asked);
  return client.receive(asked.method);
}

wire::json::Object TestAgent::run(std::string_view body) const {
  const Answer answer =
      ask({.method = "POST", .target = "/run", .body = std::string(body), .headers = ""});
  EXPECT_EQ(answer.status, 200) << answer.body.substr(0, 300);
  EXPECT_TRUE(answer.whole);
  return answer.json();
}

wire::json::Object TestAgent::shell(std::string_view command) const {
  return run(base::cat("{\"command\":", json_text(command), "}"));
}

Answer TestAgent::put(std::string_view path, std::string body, std::string_view more) const {
  return ask({.method = "PUT",
              .target = base::cat("/files?path=", base::percent_encode(path), more),
              .body = std::move(body),
              .headers = ""});
}

Answer TestAgent::get(std::string_view path, std::string_view more) const {
  return ask({.method = "GET",
              .target = base::cat("/files?path=", base::percent_encode(path), more),
              .body = "",
              .headers = ""});
}

std::string payload_of_chunks(std::string_view bytes) {
  const auto size = wire::http::find_head(bytes);
  if (!size || !*size) {
    return {};
  }
  const auto head = wire::http::parse_response(bytes.substr(0, **size), "GET");
  bytes.remove_prefix(**size);
  std::string payload;
  if (head) {
    wire::http::BodyDecoder decoder(*head);
    while (!bytes.empty() && !decoder.finished()) {
      const auto step = decoder.next(bytes);
      if (!step) {
        break;
      }
      payload += step->payload;
      bytes.remove_prefix(step->consumed);
    }
  }
  return payload;
}

bool eventually(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) {
      return false;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

std::string text_of(const wire::json::Object& object, std::string_view name) {
  const auto* value = object.if_contains(name);
  return value != nullptr && value->is_string() ? std::string(value->get_string()) : "";
}

std::string json_text(std::string_view text) {
  std::string out;
  base::append_json_string(out, text);
  return out;
}

}  // namespace agent
