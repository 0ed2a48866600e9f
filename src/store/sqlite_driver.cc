#include "store/sqlite_driver.h"

#include <utility>

namespace store {
namespace {

using base::ErrorCode;
using base::fail;

// How long a statement waits for another process that holds the file (an operator's backup).
constexpr int kBusyMilliseconds = 5000;

ErrorCode code_of(int code) {
  switch (code & 0xFF) {
    case SQLITE_FULL:
      return ErrorCode::disk_full;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_INTERRUPT:
    case SQLITE_CANTOPEN:
    case SQLITE_READONLY:
      return ErrorCode::unavailable;
    case SQLITE_CONSTRAINT:
      return ErrorCode::conflict;
    default:
      return ErrorCode::internal;
  }
}

// What SQLite says names tables and columns, never bound values.
std::unexpected<base::Error> sqlite_error(sqlite3* database, int code, std::string_view step) {
  return fail(code_of(code), "database: ", step, ": ",
              database == nullptr ? sqlite3_errstr(code) : sqlite3_errmsg(database));
}

class SqliteStatement final : public Compiled {
 public:
  SqliteStatement(sqlite3* database, sqlite3_stmt* made) : database_(database), made_(made) {}
  SqliteStatement(const SqliteStatement&) = delete;
  SqliteStatement& operator=(const SqliteStatement&) = delete;
  ~SqliteStatement() override { sqlite3_finalize(made_); }

  void bind_text(int parameter, std::string_view text) override {
    // A view without data would bind NULL.
    const char* const data = text.data() == nullptr ? "" : text.data();
    note(sqlite3_bind_text64(made_, parameter, data, text.size(), SQLITE_TRANSIENT, SQLITE_UTF8));
  }
  void bind_int(int parameter, int64_t value) override {
    note(sqlite3_bind_int64(made_, parameter, value));
  }
  void bind_null(int parameter) override { note(sqlite3_bind_null(made_, parameter)); }

  Result<bool> step() override {
    if (bind_error_ != SQLITE_OK) {
      return sqlite_error(nullptr, bind_error_, "bind a value");
    }
    const int code = sqlite3_step(made_);
    if (code == SQLITE_ROW) {
      return true;
    }
    if (code == SQLITE_DONE) {
      return false;
    }
    return sqlite_error(database_, code, "run a statement");
  }
  void reset() override {
    sqlite3_reset(made_);
    sqlite3_clear_bindings(made_);
    bind_error_ = SQLITE_OK;
  }

  [[nodiscard]] int64_t get_int(int column) const override {
    return sqlite3_column_int64(made_, column);
  }
  [[nodiscard]] std::string_view get_text(int column) const override {
    const auto* const text = reinterpret_cast<const char*>(sqlite3_column_text(made_, column));
    const int size = sqlite3_column_bytes(made_, column);
    return text == nullptr ? std::string_view() : std::string_view(text, static_cast<size_t>(size));
  }
  [[nodiscard]] bool is_null(int column) const override {
    return sqlite3_column_type(made_, column) == SQLITE_NULL;
  }

 private:
  void note(int code) {
    if (code != SQLITE_OK && bind_error_ == SQLITE_OK) {
      bind_error_ = code;
    }
  }

  sqlite3* database_;
  sqlite3_stmt* made_;
  int bind_error_ = SQLITE_OK;
};

// A statement without parameters and rows.
Result<void> run_once(Compiled& statement) {
  auto done = statement.step();
  statement.reset();
  RETURN_IF_ERROR(done);
  return {};
}

}  // namespace

Result<std::unique_ptr<SqliteConnection>> SqliteConnection::open(const std::string& path) {
  // Before SQLite starts, once: otherwise it counts each allocation under a lock, which is a sixth
  // of a small transaction.
  [[maybe_unused]] static const int configured = sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
  sqlite3* opened = nullptr;
  // NOMUTEX: one thread at a time is the owner's promise.
  const int code = sqlite3_open_v2(
      path.c_str(), &opened,
      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE,
      nullptr);
  Handle handle(opened);
  if (code != SQLITE_OK) {
    return sqlite_error(opened, code, base::cat("open ", path));
  }
  sqlite3_busy_timeout(opened, kBusyMilliseconds);
  std::unique_ptr<SqliteConnection> connection(new SqliteConnection(std::move(handle)));
  // NORMAL syncs the log at checkpoints only: a killed process loses nothing, a power cut may lose
  // the last moments but never breaks the file. The log may grow to 4000 pages (16 MiB), so that
  // pages that change again and again are copied back once.
  RETURN_IF_ERROR(base::with_context(
      connection->run_script("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; "
                             "PRAGMA foreign_keys = ON; PRAGMA temp_store = MEMORY; "
                             "PRAGMA wal_autocheckpoint = 4000"),
      base::cat("open ", path)));
  return connection;
}

Result<std::shared_ptr<Compiled>> SqliteConnection::compile(std::string_view sql) {
  sqlite3_stmt* made = nullptr;
  const int code = sqlite3_prepare_v3(handle_.get(), sql.data(), static_cast<int>(sql.size()),
                                      SQLITE_PREPARE_PERSISTENT, &made, nullptr);
  auto statement = std::make_shared<SqliteStatement>(handle_.get(), made);
  if (code != SQLITE_OK) {
    return sqlite_error(handle_.get(), code, "prepare a statement");
  }
  // $1, $2, ... are names to SQLite, numbered as they appear: the two must agree.
  const int count = sqlite3_bind_parameter_count(made);
  for (int i = 1; i <= count; ++i) {
    const char* const name = sqlite3_bind_parameter_name(made, i);
    if (name == nullptr || base::cat("$", i) != name) {
      return fail(ErrorCode::internal, "database: parameter ", i, " of a statement is not $", i);
    }
  }
  return statement;
}

Result<void> SqliteConnection::run_script(const std::string& sql) {
  const int code = sqlite3_exec(handle_.get(), sql.c_str(), nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) {
    return sqlite_error(handle_.get(), code, "run a script");
  }
  return {};
}

int64_t SqliteConnection::changes() const { return sqlite3_changes64(handle_.get()); }

// IMMEDIATE takes the write lock at once, so that no transaction has to be repeated midway.
Result<void> SqliteConnection::begin() {
  roll_back();  // what a rollback that failed has left open
  if (!begin_) {
    ASSIGN_OR_RETURN(begin_, compile("BEGIN IMMEDIATE"));
  }
  auto begun = run_once(*begin_);
  if (!begun) {
    roll_back();  // it may have begun before it failed
  }
  return begun;
}

Result<void> SqliteConnection::commit() {
  if (!commit_) {
    ASSIGN_OR_RETURN(commit_, compile("COMMIT"));
  }
  auto committed = run_once(*commit_);
  if (!committed) {
    roll_back();
  }
  return committed;
}

void SqliteConnection::roll_back() {
  // Some failures (disk full, interrupt) have rolled back already.
  if (sqlite3_get_autocommit(handle_.get()) == 0) {
    sqlite3_exec(handle_.get(), "ROLLBACK", nullptr, nullptr, nullptr);
  }
}

Result<bool> SqliteConnection::has_table(std::string_view name) {
  ASSIGN_OR_RETURN(auto statement,
                   compile("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = $1"));
  statement->bind_text(1, name);
  return statement->step();
}

}  // namespace store
