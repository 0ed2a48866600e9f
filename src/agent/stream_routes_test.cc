#include "agent/stream_routes.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <filesystem>

#include "agent/agent_testing.h"
#include "agent/endpoint.h"
#include "base/sys.h"

namespace agent {
namespace {

constexpr std::string_view kUpgrade = "connection: Upgrade\r\nupgrade: sandbox-stream\r\n";

// A client whose connection became a stream.
class StreamClient : public TestClient {
 public:
  StreamClient(const TestAgent& agent, std::string target, std::string body = "")
      : TestClient(agent.socket_path()) {
    send(Asked{.method = body.empty() ? "GET" : "POST",
               .target = std::move(target),
               .body = std::move(body),
               .headers = std::string(kUpgrade)});
    EXPECT_TRUE(wait_for("\r\n\r\n"));
    const std::string head = take();
    EXPECT_TRUE(head.starts_with("HTTP/1.1 101 ")) << head;
    early_ = head.substr(head.find("\r\n\r\n") + 4);
  }
  // What comes until the text, with it.
  std::string until(std::string_view text) {
    std::string seen = std::exchange(early_, {});
    while (seen.find(text) == std::string::npos && read_more()) {
      seen += take();
    }
    return seen;
  }
  std::string to_the_end() {
    std::string seen = std::exchange(early_, {});
    while (read_more()) {
      seen += take();
    }
    return seen;
  }

 private:
  std::string early_;
};

Answer ask(const TestAgent& agent, std::string target, std::string body = "") {
  return agent.ask({.method = body.empty() ? "GET" : "POST",
                    .target = std::move(target),
                    .body = std::move(body),
                    .headers = std::string(kUpgrade)});
}

// A blocking listener of the test's own.
struct TestListener {
  TestListener() : socket(listen_tcp("127.0.0.1", 0, {}).value()) {
    port = local_address(socket.get()).port();
  }
  [[nodiscard]] base::Fd accept() const {
    pollfd ready{.fd = socket.get(), .events = POLLIN, .revents = 0};
    ::poll(&ready, 1, 10'000);
    return base::Fd(::accept4(socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
  }
  base::Fd socket;
  uint16_t port = 0;
};

TEST(StreamRoutes, carry_bytes_to_a_port_and_pass_half_closes_on) {
  const TestAgent agent;
  const TestListener listener;
  StreamClient client(agent, base::cat("/streams/tcp?port=", listener.port));
  const base::Fd service = listener.accept();
  client.send(std::string(300'000, 'q'));
  client.half_close();
  EXPECT_EQ(base::sys::read_all(service.get(), 1 << 20)->size(), 300'000U);
  ASSERT_TRUE(base::sys::write_all(service.get(), std::string(300'000, 'a')));
  ::shutdown(service.get(), SHUT_WR);
  EXPECT_EQ(client.to_the_end().size(), 300'000U);
}

TEST(StreamRoutes, say_why_a_port_cannot_be_reached) {
  const TestAgent agent;
  uint16_t port = 0;
  {
    const TestListener gone;
    port = gone.port;
  }
  const Answer refused = ask(agent, base::cat("/streams/tcp?host=localhost&port=", port));
  EXPECT_EQ(refused.status, 409);
  EXPECT_NE(refused.body.find("\"refused\""), std::string::npos) << refused.body;
  const Answer unknown = ask(agent, "/streams/tcp?host=not%20a%20name&port=1");
  EXPECT_NE(unknown.body.find("\"name_not_found\""), std::string::npos) << unknown.body;
  EXPECT_EQ(ask(agent, "/streams/tcp?host=127.0.0.1").status, 422);
  EXPECT_EQ(ask(agent, "/streams/tcp?port=65536").status, 422);
  EXPECT_EQ(agent.ask({.target = "/streams/tcp?port=1"}).status, 400);
}

TEST(StreamRoutes, reach_a_socket_with_the_users_rights_and_credentials) {
  const TestAgent agent;
  const std::string path = agent.folder() + "/service.sock";
  const base::Fd listening = base::sys::listen_unix(path, 0777, 4).value();
  StreamClient client(agent, base::cat("/streams/unix?user=1000:1000&path=", path));
  const base::Fd service(::accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC));
  ucred peer{};
  socklen_t size = sizeof peer;
  ASSERT_EQ(::getsockopt(service.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size), 0);
  EXPECT_EQ(peer.uid, 1000U);
  EXPECT_EQ(peer.gid, 1000U);
  ASSERT_EQ(::chmod(path.c_str(), 0700), 0);
  EXPECT_EQ(ask(agent, base::cat("/streams/unix?user=1000&path=", path)).status, 403);
  const Answer none = ask(agent, "/streams/unix?path=/none.sock");
  EXPECT_EQ(none.status, 409);
  EXPECT_NE(none.body.find("\"not_found\""), std::string::npos) << none.body;
  // The agent is root again.
  EXPECT_EQ(text_of(agent.shell("id -u"), "stdout"), "0\n");
}

TEST(StreamRoutes, listen_and_hand_each_connection_over_once) {
  const TestAgent agent;
  StreamClient control(agent, "/streams/listen?port=0");
  const auto first = wire::json::parse_object(control.until("\n"));
  ASSERT_TRUE(first);
  EXPECT_EQ(text_of(*first, "host"), "127.0.0.1");
  const auto port = static_cast<uint16_t>(first->at("port").to_number<int>());
  HostAddress address = *parse_address("127.0.0.1");
  address.set_port(port);
  const base::Fd caller(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::connect(caller.get(), address.get(), address.size), 0);
  EXPECT_NE(control.until("\n").find("{\"connection\":1,\"host\":\"127.0.0.1\""),
            std::string::npos);
  const std::string target =
      base::cat("/streams/accept?connection=1&listener=", text_of(*first, "listener"));
  StreamClient stream(agent, target);
  ASSERT_TRUE(base::sys::write_all(caller.get(), "hello\n"));
  EXPECT_EQ(stream.until("\n"), "hello\n");
  EXPECT_EQ(ask(agent, target).status, 404);
  control.close();
  EXPECT_TRUE(eventually([&] {
    const base::Fd late(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    return ::connect(late.get(), address.get(), address.size) != 0;
  }));
}

TEST(StreamRoutes, listen_on_a_socket_that_goes_with_its_stream) {
  const TestAgent agent;
  const std::string path = agent.folder() + "/made.sock";
  StreamClient control(agent, base::cat("/streams/listen?path=", path));
  EXPECT_EQ(control.until("\n"), base::cat("{\"listener\":\"l1\",\"path\":\"", path, "\"}\n"));
  struct stat file{};
  ASSERT_EQ(::stat(path.c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 07777, 0600U) << "nobody else connects";
  const base::Fd caller = base::sys::connect_unix(path, false).value();
  EXPECT_EQ(control.until("\n"), "{\"connection\":1}\n");
  control.close();
  EXPECT_TRUE(eventually([&path] { return !std::filesystem::exists(path); }));
}

TEST(StreamRoutes, a_user_may_not_listen_where_only_root_may) {
  const TestAgent agent;
  const Answer answer =
      ask(agent, base::cat("/streams/listen?user=1000&path=/root-only-", ::getpid(), ".sock"));
  EXPECT_EQ(answer.status, 403) << answer.body;
}

// The helper that a TestAgent runs is /bin/sh on the script `scp` of its working directory.
TEST(StreamRoutes, give_a_helper_the_connection_itself) {
  const TestAgent agent;
  ASSERT_TRUE(base::sys::replace_file(agent.folder() + "/scp",
                                      "echo \"$1 $(id -u)\"; cat; echo over", 0644));
  StreamClient client(
      agent, "/streams/helper",
      base::cat(R"({"helper":"scp","argv":["word"],"user":"1000","cwd":")", agent.folder(), "\"}"));
  client.send("bytes\n");
  client.half_close();
  EXPECT_EQ(client.to_the_end(), "word 1000\nbytes\nover\n");
}

TEST(StreamRoutes, end_a_helper_whose_client_is_gone) {
  const TestAgent agent;
  ASSERT_TRUE(base::sys::replace_file(agent.folder() + "/scp", "echo $$; exec sleep 1000", 0644));
  StreamClient client(agent, "/streams/helper",
                      base::cat(R"({"helper":"scp","argv":["x"],"cwd":")", agent.folder(), "\"}"));
  const auto pid = base::parse_number<pid_t>(base::trim(base::split(client.until("\n"), '\n')[0]));
  ASSERT_TRUE(pid);
  client.close();
  EXPECT_TRUE(eventually([&pid] { return ::kill(*pid, 0) != 0; }));
}

TEST(StreamRoutes, refuse_what_is_no_helper) {
  const TestAgent agent;
  EXPECT_EQ(ask(agent, "/streams/helper", R"({"argv":["id"]})").status, 422);
  EXPECT_EQ(ask(agent, "/streams/helper", R"({"helper":"sh"})").status, 422);
  EXPECT_EQ(ask(agent, "/streams/helper", R"({"helper":"scp"})").status, 422);
  EXPECT_EQ(ask(agent, "/streams/helper", R"({"helper":"sftp","argv":["x"]})").status, 422);
  EXPECT_EQ(ask(agent, "/streams/helper", R"({"helper":"sftp","command":"x"})").status, 422);
  EXPECT_EQ(ask(agent, "/streams/helper", R"({"helper":"sftp","cwd":"/none"})").error_code(),
            "cwd_invalid");
  EXPECT_EQ(ask(agent, "/streams/helper", R"({"helper":"sftp","user":"nobody-here"})").error_code(),
            "user_unknown");
  EXPECT_EQ(ask(agent, "/streams/tcp", "{}").status, 405);
}

}  // namespace
}  // namespace agent
