#include "store/store_testing.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>

namespace store {

PostgresServer* PostgresServer::get() {
  static PostgresServer server;
  return server.url_.empty() ? nullptr : &server;
}

PostgresServer::PostgresServer() {
  std::array<int, 2> input{};
  std::array<int, 2> output{};
  if (::pipe2(input.data(), O_CLOEXEC) != 0 || ::pipe2(output.data(), O_CLOEXEC) != 0) {
    return;
  }
  ::signal(SIGPIPE, SIG_IGN);
  process_ = ::fork();
  if (process_ == 0) {
    ::dup2(input[0], STDIN_FILENO);
    ::dup2(output[1], STDOUT_FILENO);
    // Python looks for its library beside the program that it is called as.
    ::execl("/usr/bin/python3", "/usr/bin/python3", SANDBOX_SOURCE_FOLDER "/tools/postgresql.py",
            nullptr);
    ::_exit(127);
  }
  ::close(input[0]);
  ::close(output[1]);
  input_ = input[1];
  output_ = output[0];
  url_ = read_line();
  EXPECT_NE(url_, "") << "tools/postgresql.py did not start";
  if (url_ == "none") {
    url_.clear();
  }
}

PostgresServer::~PostgresServer() {
  ::close(input_);
  ::close(output_);
  if (process_ > 0) {
    ::waitpid(process_, nullptr, 0);
  }
}

std::string PostgresServer::read_line() {
  std::string line;
  for (char letter = 0; ::read(output_, &letter, 1) == 1 && letter != '\n';) {
    line += letter;
  }
  return line;
}

void PostgresServer::order(const std::string& line) {
  const std::string text = line + "\n";
  ASSERT_EQ(::write(input_, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  ASSERT_EQ(read_line(), "ok") << line;
}

std::string PostgresServer::make_database() {
  const std::string name = base::cat("store_", ++databases_);
  order("database " + name);
  return url_.substr(0, url_.rfind('/') + 1) + name;
}

int PostgresServer::port() const {
  const size_t colon = url_.rfind(':');
  return ::atoi(url_.c_str() + colon + 1);
}

StoreTest::StoreTest() {
  std::string pattern = testing::TempDir() + "store-XXXXXX";
  folder_ = ::mkdtemp(pattern.data());
}

StoreTest::~StoreTest() {
  store_.reset();
  std::filesystem::remove_all(folder_);
}

void StoreTest::SetUp() {
  url_ = folder_ + "/gateway.db";
  if (GetParam() == StoreEngine::postgresql) {
    PostgresServer* const server = PostgresServer::get();
    ASSERT_FALSE(HasFailure());  // else a skipped test would run all the same
    if (server == nullptr) {
      GTEST_SKIP() << "PostgreSQL's server is not installed: ./dev setup";
    }
    url_ = server->make_database();
  }
  reopen();
}

void StoreTest::reopen() {
  store_.reset();
  auto opened = Store::open(url_);
  ASSERT_TRUE(opened.has_value()) << opened.error().message;
  store_ = std::move(*opened);
}

Sandbox StoreTest::sandbox(const std::string& id, int64_t created_ms) {
  Sandbox out;
  out.id = id;
  out.owner = "somebody";
  out.state = model::SandboxState::starting;
  out.image = "docker.io/library/debian:latest";
  out.resources = {.millicpus = 1500, .memory_mb = 256, .storage_mb = 512, .pids = 99};
  out.environment_sealed = std::string("\0\xFF sealed", 9);
  out.created_ms = created_ms;
  return out;
}

Sandbox StoreTest::insert(const Sandbox& row) {
  auto inserted = store().insert_sandbox(kTeam, row, {{.at_ms = 1, .type = "created"}});
  EXPECT_TRUE(inserted.has_value()) << inserted.error().message;
  return inserted ? inserted->sandbox : Sandbox{};
}

std::vector<std::string> StoreTest::listed(const SandboxFilter& filter) {
  std::vector<std::string> out;
  auto page = store().list_sandboxes({std::string(kTeam)}, filter);
  EXPECT_TRUE(page.has_value()) << page.error().message;
  for (const Sandbox& row : page->items) {
    out.push_back(row.id);
  }
  return out;
}

std::string StoreTest::make_database() {
  return GetParam() == StoreEngine::postgresql ? PostgresServer::get()->make_database()
                                               : folder_ + "/another.db";
}

void StoreTest::make_team(const std::string& name) {
  const auto made = store().put_team({.name = name});
  ASSERT_TRUE(made.has_value()) << made.error().message;
}

std::string engine_name(const testing::TestParamInfo<StoreEngine>& info) {
  return info.param == StoreEngine::sqlite ? "sqlite" : "postgresql";
}

}  // namespace store
