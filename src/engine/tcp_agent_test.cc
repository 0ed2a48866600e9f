// The real agent on a port of loopback, and who may talk to it: who has the sandbox's key and means
// that sandbox, and nobody else.
#include "engine/tcp_agent.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/sys.h"
#include "net/listener.h"

namespace engine {
namespace {

using base::ErrorCode;
using net::Deadline;
using net::Task;

constexpr base::Milliseconds kPatience{20'000};
constexpr std::string_view kRun = R"json({"argv":["sh","-c","echo on $((6*7))"]})json";

std::string key_of(char c) { return std::string(32, c); }

std::shared_ptr<tls::Context> pin(const std::string& sandbox, char key) {
  auto context =
      tls::Context::pinned({.sandbox = sandbox, .private_key = base::Secret(key_of(key))});
  EXPECT_TRUE(context) << context.error().message;
  return *context;
}

uint16_t free_port() {
  net::EventLoop loop;
  return net::Listener(loop, *net::listen_tcp("127.0.0.1:0", 1)).port();
}

base::Fd connect_plainly(uint16_t port) {
  base::Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{.sin_family = AF_INET, .sin_port = htons(port)};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const bool connected =
      ::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  timeval patience{.tv_sec = kPatience.count() / 1000};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  return connected ? std::move(socket) : base::Fd();
}

// Everything until the end; nullopt: there is none in time.
std::optional<std::string> read_to_end(const base::Fd& socket) {
  std::string out;
  std::array<char, 4096> buffer{};
  for (;;) {
    const ssize_t size = ::read(socket.get(), buffer.data(), buffer.size());
    if (size == 0 || (size < 0 && errno == ECONNRESET)) {
      return out;
    }
    if (size < 0) {
      return std::nullopt;
    }
    out.append(buffer.data(), static_cast<size_t>(size));
  }
}

class TcpAgentTest : public testing::Test {
 protected:
  TcpAgentTest() : tunnels_(loop_) {
    ::signal(SIGPIPE, SIG_IGN);
    std::string pattern = testing::TempDir() + "tcp-agent-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }
  ~TcpAgentTest() override {
    tunnels_.cancel();
    run(join());
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
    std::filesystem::remove_all(folder_);
  }

  void SetUp() override {
    port_ = free_port();
    std::ofstream(folder_ + "/config")
        << R"({"env":{"PATH":"/usr/bin:/bin"},"tcp":{"address":"127.0.0.1:)" << port_
        << R"(","sandbox":"sbx-one","private_key":")" << base::base64(key_of('k')) << "\"}}";
    ASSERT_TRUE(start());
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (!connect_plainly(port_) && std::chrono::steady_clock::now() < end) {
      ASSERT_EQ(::waitpid(pid_, nullptr, WNOHANG), 0) << "the agent ended";
      std::this_thread::sleep_for(base::Milliseconds(10));
    }
  }
  bool start() {
    const char* const programs = ::getenv("SANDBOX_TEST_PROGRAMS");
    const std::string program =
        base::cat(programs != nullptr
                      ? std::string(programs)
                      : std::filesystem::read_symlink("/proc/self/exe").parent_path().string(),
                  "/sandbox-agent-tls");
    std::string name = "sandbox-agent-tls";
    std::string option = "--config";
    std::string file = folder_ + "/config";
    std::array<char*, 4> argv{name.data(), option.data(), file.data(), nullptr};
    return ::posix_spawn(&pid_, program.c_str(), nullptr, nullptr, argv.data(), environ) == 0;
  }

  Task<void> join() { co_await tunnels_.join(); }
  template <typename T>
  static Task<void> keep(Task<T> task, std::optional<T>& out) {
    auto result = co_await std::move(task);
    out.emplace(std::move(result));
  }
  template <typename T>
  T run(Task<T> task) {
    std::optional<T> out;
    net::TaskGroup group(loop_);
    group.spawn(keep(std::move(task), out));
    while (group.size() > 0) {
      loop_.run_once(base::Milliseconds(50));
    }
    return std::move(*out);
  }
  void run(Task<void> task) {
    net::TaskGroup group(loop_);
    group.spawn(std::move(task));
    while (group.size() > 0) {
      loop_.run_once(base::Milliseconds(50));
    }
  }

  net::Task<Result<std::unique_ptr<AgentConnection>>> connect(const std::string& sandbox,
                                                              char key) {
    return connect_to_agent(
        loop_, tunnels_, {.address = base::cat("127.0.0.1:", port_), .context = pin(sandbox, key)});
  }
  // What a command says to who connects so.
  Task<Result<std::string>> run_command(std::string sandbox, char key) {
    CO_ASSIGN_OR_RETURN(auto connection, co_await connect(sandbox, key));
    co_return co_await run_command(*connection);
  }
  static Task<Result<std::string>> run_command(AgentConnection& connection) {
    const std::string head =
        base::cat("POST /run HTTP/1.1\r\nhost: agent\r\ncontent-length: ", kRun.size(), "\r\n\r\n");
    CO_RETURN_IF_ERROR(co_await connection.stream.write_all(head, kRun, kPatience));
    CO_RETURN_IF_ERROR(
        co_await connection.reader.read_response("POST", Deadline::after(kPatience)));
    co_return co_await connection.reader.read_whole_body(100'000, kPatience);
  }
  size_t open_files() const {
    size_t count = 0;
    for ([[maybe_unused]] const auto& one :
         std::filesystem::directory_iterator(base::cat("/proc/", pid_, "/fd"))) {
      ++count;
    }
    return count;
  }
  // Nothing is left of who was refused, and who may goes on.
  void expect_unharmed() {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (open_files() > files_at_rest_ && std::chrono::steady_clock::now() < end) {
      loop_.run_once(base::Milliseconds(20));
    }
    EXPECT_LE(open_files(), files_at_rest_);
    const auto told = run(run_command("sbx-one", 'k'));
    ASSERT_TRUE(told) << told.error().message;
    EXPECT_NE(told->find("on 42"), std::string::npos) << *told;
  }
  // Once it has served somebody and nobody is there.
  void rest() {
    ASSERT_TRUE(run(run_command("sbx-one", 'k')));
    size_t before = 0;
    while (before != open_files()) {
      before = open_files();
      for (int i = 0; i < 10; ++i) {
        loop_.run_once(base::Milliseconds(20));
      }
    }
    files_at_rest_ = before;
  }

  net::EventLoop loop_;
  std::string folder_;
  uint16_t port_ = 0;
  pid_t pid_ = 0;
  size_t files_at_rest_ = 0;
  net::TaskGroup tunnels_;
};

TEST_F(TcpAgentTest, serves_who_has_the_key_and_means_that_sandbox) {
  const auto told = run(run_command("sbx-one", 'k'));
  ASSERT_TRUE(told) << told.error().message;
  EXPECT_NE(told->find("on 42"), std::string::npos) << *told;
  // One request after the other on one connection, and several beside each other.
  const auto connection = run(connect("sbx-one", 'k'));
  ASSERT_TRUE(connection) << connection.error().message;
  const auto another = run(connect("sbx-one", 'k'));
  ASSERT_TRUE(another);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(run(run_command(**connection)));
    EXPECT_TRUE(run(run_command(**another)));
  }
}

TEST_F(TcpAgentTest, a_key_or_a_sandbox_that_is_not_its_own_is_refused_by_both_ends) {
  rest();
  for (const auto& [sandbox, key] : {std::pair("sbx-one", 'x'), std::pair("sbx-two", 'k'),
                                     std::pair("sbx-two", 'x'), std::pair("sbx-on", 'k')}) {
    const auto refused = run(connect(sandbox, key));
    ASSERT_FALSE(refused) << sandbox << key;
    EXPECT_EQ(refused.error().code, ErrorCode::connection_closed) << refused.error().message;
  }
  expect_unharmed();
}

// The agent's own check, whatever its client thinks of it.
class Client {
 public:
  Client(uint16_t port, int version_max, const tls::Pin* shown) : socket_(connect_plainly(port)) {
    context_ = ::SSL_CTX_new(::TLS_client_method());
    ::SSL_CTX_set_max_proto_version(context_, version_max);
    if (shown != nullptr) {
      EVP_PKEY* const key = ::EVP_PKEY_new_raw_private_key(
          EVP_PKEY_ED25519, nullptr,
          reinterpret_cast<const unsigned char*>(shown->private_key.reveal().data()), 32);
      X509* const certificate = ::X509_new();
      ::X509_set_version(certificate, X509_VERSION_3);
      ::X509_gmtime_adj(::X509_getm_notBefore(certificate), 0);
      ::X509_gmtime_adj(::X509_getm_notAfter(certificate), 1000);
      ::X509_set_pubkey(certificate, key);
      ::X509_NAME_add_entry_by_txt(::X509_get_subject_name(certificate), "CN", MBSTRING_ASC,
                                   reinterpret_cast<const unsigned char*>(shown->sandbox.c_str()),
                                   -1, -1, 0);
      ::X509_sign(certificate, key, nullptr);
      ::SSL_CTX_use_certificate(context_, certificate);
      ::SSL_CTX_use_PrivateKey(context_, key);
      ::X509_free(certificate);
      ::EVP_PKEY_free(key);
    }
    ssl_ = ::SSL_new(context_);
    ::SSL_set_fd(ssl_, socket_.get());
  }
  Client(const Client&) = delete;
  ~Client() {
    ::SSL_free(ssl_);
    ::SSL_CTX_free(context_);
  }
  // The first byte of an answer comes.
  bool is_served() {
    if (::SSL_connect(ssl_) != 1) {
      return false;
    }
    constexpr std::string_view kAsk = "GET /nothing HTTP/1.1\r\nhost: a\r\n\r\n";
    char byte = 0;
    return ::SSL_write(ssl_, kAsk.data(), static_cast<int>(kAsk.size())) > 0 &&
           ::SSL_read(ssl_, &byte, 1) == 1;
  }

 private:
  base::Fd socket_;
  SSL_CTX* context_ = nullptr;
  SSL* ssl_ = nullptr;
};

TEST_F(TcpAgentTest, refuses_whoever_shows_nothing_another_key_or_another_name) {
  rest();
  const tls::Pin right{.sandbox = "sbx-one", .private_key = base::Secret(key_of('k'))};
  const tls::Pin other_key{.sandbox = "sbx-one", .private_key = base::Secret(key_of('x'))};
  const tls::Pin other_name{.sandbox = "sbx-two", .private_key = base::Secret(key_of('k'))};
  EXPECT_TRUE(Client(port_, TLS1_3_VERSION, &right).is_served());
  EXPECT_FALSE(Client(port_, TLS1_3_VERSION, nullptr).is_served());
  EXPECT_FALSE(Client(port_, TLS1_3_VERSION, &other_key).is_served());
  EXPECT_FALSE(Client(port_, TLS1_3_VERSION, &other_name).is_served());
  EXPECT_FALSE(Client(port_, TLS1_2_VERSION, &right).is_served());
  expect_unharmed();
}

TEST_F(TcpAgentTest, plain_requests_and_half_a_handshake_end_in_bounded_time) {
  rest();
  const base::Fd plain = connect_plainly(port_);
  ASSERT_TRUE(base::sys::write_all(plain.get(), "POST /run HTTP/1.1\r\nhost: a\r\n\r\n"));
  const auto told = read_to_end(plain);
  ASSERT_TRUE(told);
  EXPECT_TRUE(told->starts_with("HTTP/1.1 400 ")) << *told;
  const base::Fd silent = connect_plainly(port_);
  const base::Fd begun = connect_plainly(port_);
  ASSERT_TRUE(base::sys::write_all(begun.get(), std::string("\x16\x03\x01\x02\x00\x01", 6)));
  const base::Fd noise = connect_plainly(port_);
  ASSERT_TRUE(base::sys::write_all(noise.get(), std::string(300, '\xA5')));
  // Others are served meanwhile.
  EXPECT_TRUE(run(run_command("sbx-one", 'k')));
  for (const base::Fd* one : {&noise, &silent, &begun}) {
    EXPECT_TRUE(read_to_end(*one)) << "no end within the patience";
  }
  expect_unharmed();
}

TEST_F(TcpAgentTest, more_half_handshakes_than_there_is_room_for_keep_nobody_out) {
  rest();
  std::vector<base::Fd> silent;
  for (int i = 0; i < 200; ++i) {
    silent.push_back(connect_plainly(port_));
    ASSERT_TRUE(silent.back());
  }
  EXPECT_TRUE(run(run_command("sbx-one", 'k')));
  silent.clear();
  expect_unharmed();
}

TEST_F(TcpAgentTest, a_connection_ends_with_either_end) {
  rest();
  {
    auto connection = run(connect("sbx-one", 'k'));
    ASSERT_TRUE(connection);
    EXPECT_TRUE(run(run_command(**connection)));
    EXPECT_EQ(tunnels_.size(), 1U);
  }
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (tunnels_.size() > 0 && std::chrono::steady_clock::now() < end) {
    loop_.run_once(base::Milliseconds(20));
  }
  EXPECT_EQ(tunnels_.size(), 0U);
  expect_unharmed();
  auto connection = run(connect("sbx-one", 'k'));
  ASSERT_TRUE(connection);
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = 0;
  EXPECT_FALSE(run(run_command(**connection)));
}

TEST_F(TcpAgentTest, an_address_that_nobody_has_is_unavailable_and_a_dumb_one_ends_in_time) {
  const uint16_t unused = free_port();
  EXPECT_EQ(run(tls::connect_pinned(loop_, tunnels_, base::cat("127.0.0.1:", unused),
                                    pin("sbx-one", 'k')))
                .error()
                .code,
            ErrorCode::unavailable);
  const base::Fd dumb = std::move(*net::listen_tcp(base::cat("127.0.0.1:", unused), 8));
  EXPECT_EQ(run(tls::connect_pinned(loop_, tunnels_, base::cat("127.0.0.1:", unused),
                                    pin("sbx-one", 'k'), base::Milliseconds(300)))
                .error()
                .code,
            ErrorCode::deadline_exceeded);
  EXPECT_EQ(tunnels_.size(), 0U);
}

}  // namespace
}  // namespace engine
