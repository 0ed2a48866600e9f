// The front with a real client (OpenSSL, blocking, on the test's thread) and a server that is a
// blocking thread at the near end of each connection.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "base/sys.h"
#include "tls/front.h"

namespace tls {
namespace {

constexpr size_t kLarge = 8'000'000;

using KeyPointer = std::unique_ptr<EVP_PKEY, decltype(&::EVP_PKEY_free)>;

// Writes a self-signed certificate and its key.
void make_pair(const Files& files, const char* name, long begins = -60, long ends = 3600) {
  const KeyPointer key(::EVP_EC_gen("P-256"), &::EVP_PKEY_free);
  X509* certificate = ::X509_new();
  ::X509_set_version(certificate, 2);
  ::ASN1_INTEGER_set(::X509_get_serialNumber(certificate), 1);
  ::X509_gmtime_adj(::X509_getm_notBefore(certificate), begins);
  ::X509_gmtime_adj(::X509_getm_notAfter(certificate), ends);
  ::X509_set_pubkey(certificate, key.get());
  ::X509_NAME_add_entry_by_txt(::X509_get_subject_name(certificate), "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>(name), -1, -1, 0);
  ::X509_set_issuer_name(certificate, ::X509_get_subject_name(certificate));
  ::X509_sign(certificate, key.get(), ::EVP_sha256());
  FILE* out = ::fopen(files.certificate.c_str(), "w");
  ::PEM_write_X509(out, certificate);
  ::fclose(out);
  out = ::fopen(files.key.c_str(), "w");
  ::PEM_write_PrivateKey(out, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  ::fclose(out);
  ::X509_free(certificate);
}

base::Fd connect_to(uint16_t port) {
  base::Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{.sin_family = AF_INET, .sin_port = htons(port)};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  return socket;
}

struct Wishes {
  int version_max = TLS1_3_VERSION;
  std::string protocols;  // as ALPN writes them
};

// One client's connection; not connected where the handshake failed.
class Client {
 public:
  explicit Client(uint16_t port, const Wishes& wishes = {}) : socket_(connect_to(port)) {
    context_ = ::SSL_CTX_new(::TLS_client_method());
    ::SSL_CTX_set_security_level(context_, 0);
    ::SSL_CTX_set_min_proto_version(context_, 0);
    ::SSL_CTX_set_max_proto_version(context_, wishes.version_max);
    ssl_ = ::SSL_new(context_);
    ::SSL_set_alpn_protos(ssl_, reinterpret_cast<const unsigned char*>(wishes.protocols.data()),
                          static_cast<unsigned>(wishes.protocols.size()));
    ::SSL_set_fd(ssl_, socket_.get());
    connected_ = ::SSL_connect(ssl_) == 1;
  }
  Client(const Client&) = delete;
  ~Client() {
    ::SSL_free(ssl_);
    ::SSL_CTX_free(context_);
    ::ERR_clear_error();
  }

  [[nodiscard]] bool connected() const { return connected_; }
  [[nodiscard]] SSL* ssl() { return ssl_; }
  [[nodiscard]] int socket() const { return socket_.get(); }
  void send(std::string_view bytes) {
    EXPECT_EQ(::SSL_write(ssl_, bytes.data(), static_cast<int>(bytes.size())),
              static_cast<int>(bytes.size()));
  }
  std::string receive(size_t wanted) {
    std::string out(wanted, '\0');
    size_t size = 0;
    while (size < wanted) {
      const int count = ::SSL_read(ssl_, out.data() + size, static_cast<int>(wanted - size));
      if (count <= 0) {
        break;
      }
      size += static_cast<size_t>(count);
    }
    out.resize(size);
    return out;
  }
  std::string certificate_name() {
    X509* certificate = ::SSL_get1_peer_certificate(ssl_);
    std::array<char, 64> name{};
    ::X509_NAME_get_text_by_NID(::X509_get_subject_name(certificate), NID_commonName, name.data(),
                                name.size());
    ::X509_free(certificate);
    return name.data();
  }

 private:
  base::Fd socket_;
  SSL_CTX* context_ = nullptr;
  SSL* ssl_ = nullptr;
  bool connected_ = false;
};

void set_blocking(int fd) { ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) & ~O_NONBLOCK); }

class Front : public testing::Test {
 protected:
  Front()
      : folder_(make_folder()),
        log_file_(*base::sys::open(folder_ + "/log", O_CREAT | O_RDWR | O_APPEND, 0600)),
        log_(log_file_.get()) {
    ::signal(SIGPIPE, SIG_IGN);
    files_ = {.certificate = folder_ + "/cert.pem", .key = folder_ + "/key.pem"};
    make_pair(files_, "first");
  }
  ~Front() override {
    front_.reset();
    servers_.clear();
    std::filesystem::remove_all(folder_);
  }

  static std::string make_folder() {
    std::string folder = testing::TempDir() + "tls_test." + std::to_string(::getpid());
    std::filesystem::create_directories(folder);
    return folder;
  }

  // Soon.
  bool is_logged(const std::string& text) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (std::chrono::steady_clock::now() < end) {
      const auto log = base::sys::read_file(folder_ + "/log", 1'000'000);
      if (log && log->find(text) != std::string::npos) {
        return true;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return false;
  }

  void listen() {
    front_ = std::make_unique<tls::Front>(clock_, log_, [this](base::Fd plain, std::string remote) {
      remote_ = std::move(remote);
      ++taken_;
      set_blocking(plain.get());
      servers_.emplace_back([this, fd = std::make_shared<base::Fd>(std::move(plain))]() mutable {
        serve_(std::move(*fd));
      });
    });
    const auto port = front_->listen("127.0.0.1:0", 64, files_);
    ASSERT_TRUE(port.has_value()) << port.error().message;
    port_ = *port;
  }

  static void echo(base::Fd plain) {
    std::array<char, 65536> buffer;
    for (;;) {
      const ssize_t count = ::read(plain.get(), buffer.data(), buffer.size());
      if (count <= 0 ||
          !base::sys::write_all(plain.get(), {buffer.data(), static_cast<size_t>(count)})) {
        return;
      }
    }
  }

  std::string folder_;
  Files files_;
  base::RealClock clock_;
  base::Fd log_file_;
  base::Log log_;
  std::function<void(base::Fd)> serve_ = echo;
  std::atomic<int> taken_ = 0;
  std::string remote_;
  std::vector<std::jthread> servers_;
  std::unique_ptr<tls::Front> front_;
  uint16_t port_ = 0;
};

TEST_F(Front, carries_bytes_both_ways) {
  listen();
  Client client(port_);
  ASSERT_TRUE(client.connected());
  client.send("hello");
  EXPECT_EQ(client.receive(5), "hello");
  EXPECT_EQ(remote_, "127.0.0.1");
}

TEST_F(Front, carries_large_bodies_while_both_sides_send) {
  listen();
  Client client(port_);
  ASSERT_TRUE(client.connected());
  std::string bytes(kLarge, 'x');
  for (size_t i = 0; i < bytes.size(); i += 61) {
    bytes[i] = static_cast<char>('a' + i % 26);
  }
  // The echo stops reading while nobody reads it: what is between is bounded, so pieces.
  constexpr size_t kPiece = 100'000;
  std::string received;
  for (size_t at = 0; at < bytes.size(); at += kPiece) {
    client.send(std::string_view(bytes).substr(at, kPiece));
    received += client.receive(std::min(kPiece, bytes.size() - at));
  }
  EXPECT_TRUE(received == bytes);
}

TEST_F(Front, delivers_all_that_was_written_before_the_server_closed) {
  serve_ = [](const base::Fd& plain) {
    EXPECT_TRUE(base::sys::write_all(plain.get(), std::string(kLarge, 'y')));
  };
  listen();
  Client client(port_);
  ASSERT_TRUE(client.connected());
  EXPECT_EQ(client.receive(kLarge + 1).size(), kLarge);
  // An end that was said, not one that only happened.
  EXPECT_NE(::SSL_get_shutdown(client.ssl()) & SSL_RECEIVED_SHUTDOWN, 0);
}

TEST_F(Front, an_answer_arrives_though_the_client_still_sends) {
  serve_ = [](base::Fd plain) {
    std::array<char, 100> head;
    EXPECT_GT(::read(plain.get(), head.data(), head.size()), 0);
    EXPECT_TRUE(base::sys::write_all(plain.get(), "too large"));
    ::shutdown(plain.get(), SHUT_WR);
  };
  listen();
  Client client(port_);
  ASSERT_TRUE(client.connected());
  client.send(std::string(1'000'000, 'z'));
  EXPECT_EQ(client.receive(100), "too large");
}

TEST_F(Front, the_server_sees_a_client_that_closes_or_dies) {
  std::atomic<int> ended = 0;
  serve_ = [&ended](base::Fd plain) {
    echo(std::move(plain));
    ++ended;
  };
  listen();
  {
    Client polite(port_);
    polite.send("a");
    EXPECT_EQ(polite.receive(1), "a");
    ::SSL_shutdown(polite.ssl());
  }
  {
    Client sudden(port_);
    sudden.send("a");
    EXPECT_EQ(sudden.receive(1), "a");
    const linger hard{.l_onoff = 1, .l_linger = 0};
    ::setsockopt(sudden.socket(), SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
  }
  front_.reset();
  servers_.clear();
  EXPECT_EQ(ended, 2);
}

TEST_F(Front, speaks_only_what_is_safe) {
  listen();
  EXPECT_FALSE(Client(port_, {.version_max = TLS1_1_VERSION}).connected());
  EXPECT_TRUE(Client(port_, {.version_max = TLS1_2_VERSION}).connected());
  Client newest(port_);
  EXPECT_EQ(::SSL_version(newest.ssl()), TLS1_3_VERSION);
}

TEST_F(Front, agrees_on_http_1_1_or_on_nothing) {
  listen();
  Client both(port_, {.protocols = "\x02h2\x08http/1.1"});
  ASSERT_TRUE(both.connected());
  const unsigned char* chosen = nullptr;
  unsigned size = 0;
  ::SSL_get0_alpn_selected(both.ssl(), &chosen, &size);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(chosen), size), "http/1.1");
  EXPECT_FALSE(Client(port_, {.protocols = "\x02h2"}).connected());
}

TEST_F(Front, tells_who_speaks_plain_http) {
  listen();
  const base::Fd client = connect_to(port_);
  ASSERT_TRUE(base::sys::write_all(client.get(), "GET / HTTP/1.1\r\nhost: x\r\n\r\n"));
  const auto answer = base::sys::read_all(client.get(), 10'000);
  ASSERT_TRUE(answer.has_value());
  EXPECT_TRUE(answer->starts_with("HTTP/1.1 400 "));
  EXPECT_NE(answer->find("HTTPS"), std::string::npos);
  EXPECT_EQ(taken_, 0);
}

TEST_F(Front, closes_on_who_speaks_something_else) {
  listen();
  const base::Fd client = connect_to(port_);
  ASSERT_TRUE(base::sys::write_all(client.get(), std::string_view("\x00\x01\x02", 3)));
  char byte = 0;
  EXPECT_LE(::read(client.get(), &byte, 1), 0);
}

TEST_F(Front, too_many_slow_handshakes_end_the_oldest_and_others_get_through) {
  listen();
  constexpr int kMany = 600;  // above the bound
  std::vector<base::Fd> slow;
  for (int i = 0; i < kMany; ++i) {
    slow.push_back(connect_to(port_));
    ASSERT_TRUE(base::sys::write_all(slow.back().get(), "\x16"));
  }
  Client client(port_);
  ASSERT_TRUE(client.connected());
  client.send("a");
  EXPECT_EQ(client.receive(1), "a");
  char byte = 0;
  EXPECT_LE(::read(slow.front().get(), &byte, 1), 0);
}

// Until a new connection is shown a certificate of that name.
bool is_shown(uint16_t port, const std::string& name) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (std::chrono::steady_clock::now() < end) {
    Client client(port);
    if (client.connected() && client.certificate_name() == name) {
      return true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return false;
}

TEST_F(Front, a_new_pair_is_used_and_disturbs_no_connection) {
  listen();
  Client old(port_);
  ASSERT_TRUE(old.connected());
  make_pair(files_, "second");
  EXPECT_TRUE(is_shown(port_, "second"));
  old.send("still here");
  EXPECT_EQ(old.receive(10), "still here");
}

TEST_F(Front, a_bad_new_pair_leaves_the_old_one) {
  listen();
  const Files other{.certificate = folder_ + "/other.pem", .key = folder_ + "/other.key"};
  make_pair(other, "other");
  const auto swap_in = [&](const std::string& file) {
    std::filesystem::rename(file, files_.certificate);
  };
  swap_in(other.certificate);  // of another key
  EXPECT_TRUE(is_logged("does not belong to the certificate"));
  EXPECT_TRUE(is_shown(port_, "first"));
  make_pair(files_, "expired", -7200, -3600);
  EXPECT_TRUE(is_logged("it is not valid now"));
  EXPECT_TRUE(is_shown(port_, "first"));
  make_pair(files_, "third");
  EXPECT_TRUE(is_shown(port_, "third"));
}

TEST_F(Front, says_what_is_wrong_with_a_pair) {
  const Files other{.certificate = folder_ + "/other.pem", .key = folder_ + "/other.key"};
  make_pair(other, "other");
  const auto error_of = [](const Files& files) {
    const auto context = Context::load(files);
    return context ? std::string("none") : context.error().message;
  };
  EXPECT_EQ(error_of(other), "none");
  EXPECT_NE(error_of({.certificate = other.certificate, .key = files_.key}).find("does not belong"),
            std::string::npos);
  const std::string missing = error_of({.certificate = "/nonexistent/c", .key = other.key});
  EXPECT_NE(missing.find("/nonexistent/c"), std::string::npos) << missing;
  const std::string swapped = error_of({.certificate = other.key, .key = other.certificate});
  EXPECT_NE(swapped.find(other.key), std::string::npos) << swapped;
  ASSERT_TRUE(base::sys::replace_file(other.key, "no key\n", 0600));
  EXPECT_NE(error_of(other).find(other.key), std::string::npos);
}

}  // namespace
}  // namespace tls
