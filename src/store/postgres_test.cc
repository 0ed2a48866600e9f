// What only a server can do to a store: go away at any byte, hang, come back, and be shared.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <mutex>
#include <thread>

#include "base/fd.h"
#include "store/migrations.h"
#include "store/store_testing.h"

namespace store {
namespace {

using base::ErrorCode;
using SteadyClock = std::chrono::steady_clock;
using model::SandboxState;

// Stands before the server's port and breaks one connection where it is told to.
class Relay {
 public:
  Relay(const std::string& folder, int server_port)
      : path_(folder + "/.s.PGSQL.1"), server_port_(server_port) {
    listener_ = base::Fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
    path_.copy(address.sun_path, sizeof(address.sun_path) - 1);
    EXPECT_EQ(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(::listen(listener_.get(), 8), 0);
    thread_ = std::thread([this] { run(); });
  }
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;
  ~Relay() {
    stopping_ = true;
    ::shutdown(listener_.get(), SHUT_RDWR);
    thread_.join();
  }
  // Behind so many more bytes from the client, or to it, the connection ends: once.
  void cut(bool to_server, int64_t bytes) {
    const std::lock_guard lock(mutex_);
    to_server_ = to_server;
    bytes_ = bytes;
  }
  // Whether that has not happened; and then it no longer will.
  bool disarm() {
    const std::lock_guard lock(mutex_);
    return std::exchange(bytes_, -1) >= 0;
  }

 private:
  void run() {
    while (!stopping_) {
      const base::Fd client(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (client) {
        serve(client);
      }
    }
  }
  void serve(const base::Fd& client) {
    const base::Fd server(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(server_port_));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(server.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
      return;
    }
    while (!stopping_) {
      constexpr int kLookMs = 50;
      std::array<pollfd, 2> both{pollfd{.fd = client.get(), .events = POLLIN, .revents = 0},
                                 pollfd{.fd = server.get(), .events = POLLIN, .revents = 0}};
      if (::poll(both.data(), both.size(), kLookMs) < 0 ||
          (both[0].revents != 0 && !forward(client, server, true)) ||
          (both[1].revents != 0 && !forward(server, client, false))) {
        return;
      }
    }
  }
  bool forward(const base::Fd& from, const base::Fd& to, bool to_server) {
    std::array<char, 16'384> buffer{};
    const ssize_t got = ::read(from.get(), buffer.data(), buffer.size());
    if (got <= 0) {
      return false;
    }
    const std::lock_guard lock(mutex_);
    int64_t passed = got;
    const bool cuts = bytes_ >= 0 && to_server == to_server_ && bytes_ < got;
    if (cuts) {
      passed = std::exchange(bytes_, -1);
    } else if (bytes_ >= 0 && to_server == to_server_) {
      bytes_ -= got;
    }
    return ::write(to.get(), buffer.data(), static_cast<size_t>(passed)) == passed && !cuts;
  }

  std::string path_;
  int server_port_;
  base::Fd listener_;
  std::atomic<bool> stopping_ = false;
  std::mutex mutex_;  // guards to_server_, bytes_
  bool to_server_ = false;
  int64_t bytes_ = -1;
  std::thread thread_;
};

class PostgresStoreTest : public StoreTest {
 protected:
  // Over the relay of its folder instead.
  std::unique_ptr<Store> open_over_relay() {
    const std::string database = url().substr(url().rfind('/'));
    auto opened =
        Store::open(base::cat("postgresql://postgres@", database, "?host=", folder(), "&port=1"));
    EXPECT_TRUE(opened.has_value()) << opened.error().message;
    return opened ? std::move(*opened) : nullptr;
  }
  static void order(const std::string& line) { PostgresServer::get()->order(line); }
};
INSTANTIATE_TEST_SUITE_P(Server, PostgresStoreTest, testing::Values(StoreEngine::postgresql),
                         engine_name);

// An insert is some 2,000 bytes out and 300 back: messages are cut in two everywhere.
TEST_P(PostgresStoreTest, wherever_the_connection_breaks_an_insert_happens_once) {
  Relay relay(folder(), PostgresServer::get()->port());
  auto relayed = open_over_relay();
  ASSERT_TRUE(relayed);
  int cuts = 0;
  for (const bool to_server : {true, false}) {
    const int64_t stride = to_server ? 37 : 11;
    for (int64_t bytes = 0;; bytes += stride) {
      Sandbox row = sandbox(base::cat(to_server ? "out-" : "back-", bytes));
      row.labels = {{"a", "1"}};
      relay.cut(to_server, bytes);
      const auto inserted =
          relayed->insert_sandbox(kTeam, row, {{.type = "created"}, {.type = "admitted"}});
      const bool whole = relay.disarm();
      ASSERT_TRUE(inserted.has_value()) << bytes << inserted.error().message;
      ASSERT_EQ(store().list_events(kTeam, row.id, 0, 10)->size(), 2U) << row.id;
      ASSERT_EQ(store().find_sandbox(kTeam, row.id)->labels, row.labels);
      if (whole) {
        break;
      }
      ++cuts;
    }
  }
  EXPECT_GT(cuts, 50);
}

TEST_P(PostgresStoreTest, a_read_is_asked_again_over_a_new_connection) {
  insert(sandbox("sbx-a"));
  order("stop");
  order("start");
  EXPECT_TRUE(store().find_sandbox(kTeam, "sbx-a").has_value());
  order("kill");
  order("start");
  EXPECT_TRUE(store().find_sandbox(kTeam, "sbx-a").has_value());
  order("kill");
  order("start");
  EXPECT_TRUE(store().insert_sandbox(kTeam, sandbox("sbx-b"), {}).has_value());
}

TEST_P(PostgresStoreTest, a_short_outage_is_waited_for) {
  for (const std::string how : {"stop", "kill"}) {
    order(how);
    const auto begun = SteadyClock::now();
    EXPECT_EQ(store().check().error().code, ErrorCode::unavailable);
    EXPECT_EQ(Store::open(url()).error().code, ErrorCode::unavailable);
    EXPECT_LT(SteadyClock::now() - begun, std::chrono::seconds(1));
    EXPECT_FALSE(store().is_waiting());
    // Nothing else is asked of the store's thread.
    const std::string id = "sbx-" + how;
    Result<Inserted> inserted;
    std::thread waiting([&] { inserted = store().insert_sandbox(kTeam, sandbox(id), {}); });
    while (!store().is_waiting() && SteadyClock::now() < begun + std::chrono::seconds(20)) {
      std::this_thread::yield();
    }
    order("start");
    waiting.join();
    EXPECT_TRUE(inserted.has_value()) << inserted.error().message;
    EXPECT_FALSE(store().is_waiting());
    EXPECT_TRUE(store().find_sandbox(kTeam, id).has_value());
  }
}

TEST_P(PostgresStoreTest, a_server_that_stays_away_is_unavailable_at_once_until_it_is_back) {
  order("kill");
  EXPECT_EQ(store().insert_sandbox(kTeam, sandbox("sbx-a"), {}).error().code,
            ErrorCode::unavailable);
  const auto begun = SteadyClock::now();
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(store().insert_sandbox(kTeam, sandbox("sbx-a"), {}).error().code,
              ErrorCode::unavailable);
  }
  EXPECT_LT(SteadyClock::now() - begun, std::chrono::seconds(1));
  EXPECT_EQ(store().check().error().code, ErrorCode::unavailable);
  order("start");
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!store().check() && std::chrono::steady_clock::now() < end) {
    std::this_thread::yield();
  }
  EXPECT_TRUE(store().insert_sandbox(kTeam, sandbox("sbx-a"), {}).has_value());
}

TEST_P(PostgresStoreTest, writers_take_turns_and_lose_nothing) {
  insert(sandbox("sbx-a"));
  constexpr int kWriters = 4;
  constexpr int kEach = 25;
  std::atomic<int> applied = 0;
  std::vector<std::thread> threads;
  threads.reserve(kWriters);
  for (int i = 0; i < kWriters; ++i) {
    threads.emplace_back([this, i, &applied] {
      auto own = Store::open(url());
      ASSERT_TRUE(own.has_value());
      for (int n = 0; n < kEach; ++n) {
        EXPECT_TRUE((*own)
                        ->append_event(kTeam, "sbx-a", {.at_ms = i * kEach + n + 2, .type = "x"})
                        .has_value());
      }
      const auto changed = (*own)->set_state(
          kTeam, "sbx-a", {.from = {SandboxState::starting}, .to = SandboxState::ready});
      applied += changed && changed->applied ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(applied, 1);
  EXPECT_EQ(store().list_events(kTeam, "sbx-a", 0, 1000)->size(), 1U + kWriters * kEach);
}

TEST_P(PostgresStoreTest, programs_that_start_together_migrate_once) {
  const std::string fresh = PostgresServer::get()->make_database();
  constexpr int kPrograms = 4;
  std::atomic<size_t> steps = 0;
  std::vector<std::thread> threads;
  threads.reserve(kPrograms);
  for (int i = 0; i < kPrograms; ++i) {
    threads.emplace_back([&fresh, &steps] {
      auto database = Database::open(fresh);
      ASSERT_TRUE(database.has_value());
      const auto done = migrate(*database, migrations());
      ASSERT_TRUE(done.has_value()) << done.error().message;
      steps += done->size();
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(steps, migrations().size());
}

TEST_P(PostgresStoreTest, a_text_that_the_server_cannot_hold_is_refused) {
  EXPECT_EQ(
      store().list_sandboxes({std::string(kTeam)}, {.owner = std::string("a\0b", 3)}).error().code,
      ErrorCode::invalid_field);
  EXPECT_EQ(store().list_sandboxes({std::string(kTeam)}, {.owner = "a\xFF"}).error().code,
            ErrorCode::invalid_field);
  EXPECT_TRUE(store().list_sandboxes({std::string(kTeam)}, {.owner = "a"}).has_value());
}

TEST_P(PostgresStoreTest, a_failure_inside_a_transaction_leaves_nothing_and_the_next_one_works) {
  const auto broken = [&]() -> Result<void> {
    RETURN_IF_ERROR(store().database().execute("DELETE FROM members"));
    return store().database().execute("SELECT nonsense");
  };
  EXPECT_EQ(store().database().transaction(broken).error().code, ErrorCode::internal);
  EXPECT_TRUE(store().insert_sandbox(kTeam, sandbox("sbx-a"), {}).has_value());
}

}  // namespace
}  // namespace store
