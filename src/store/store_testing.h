// StoreTest: the fixture of the store's tests, one store of its own for each on either engine. The
// PostgreSQL part needs the server's programs (tools/postgresql.py starts one for the whole test
// program, whose end ends it); where there are none it is skipped.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "store/sqlite_driver.h"
#include "store/store.h"
#include "store/store_url.h"

namespace store {

inline constexpr std::string_view kTeam = "default";

// The test program's PostgreSQL server.
class PostgresServer {
 public:
  // nullptr where none is installed.
  static PostgresServer* get();
  PostgresServer(const PostgresServer&) = delete;
  PostgresServer& operator=(const PostgresServer&) = delete;
  ~PostgresServer();

  // A new empty database; its URL.
  std::string make_database();
  // "stop", "start", "kill", "freeze", "thaw"
  void order(const std::string& line);
  [[nodiscard]] int port() const;

 private:
  PostgresServer();
  std::string read_line();

  int input_ = -1;
  int output_ = -1;
  pid_t process_ = 0;
  std::string url_;
  int databases_ = 0;
};

class StoreTest : public testing::TestWithParam<StoreEngine> {
 protected:
  StoreTest();
  ~StoreTest() override;
  void SetUp() override;

  void reopen();
  Store& store() { return *store_; }
  [[nodiscard]] const std::string& url() const { return url_; }
  [[nodiscard]] const std::string& folder() const { return folder_; }
  void close() { store_.reset(); }
  // An empty database of the same engine.
  std::string make_database();

  static Sandbox sandbox(const std::string& id, int64_t created_ms = 1000);
  Sandbox insert(const Sandbox& row);
  std::vector<std::string> listed(const SandboxFilter& filter);
  void make_team(const std::string& name);

 private:
  std::string folder_;
  std::string url_;
  std::unique_ptr<Store> store_;
};

// Those of one engine only.
class SqliteStoreTest : public StoreTest {
 protected:
  sqlite3* native() {
    return static_cast<SqliteConnection&>(store().database().connection()).native();
  }
};

std::string engine_name(const testing::TestParamInfo<StoreEngine>& info);

}  // namespace store
