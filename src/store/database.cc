#include "store/database.h"

#include <string.h>

namespace store {
namespace {

using base::ErrorCode;
using base::fail;

// How long a statement waits for another process that holds the file (an operator's backup).
constexpr int kBusyMilliseconds = 5000;
// Statements kept; lists with filters make a few dozen texts. Beyond it the cache starts anew.
constexpr size_t kStatementsMax = 256;

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
std::unexpected<base::Error> database_error(sqlite3* database, int code, std::string_view step) {
  return fail(code_of(code), "database: ", step, ": ",
              database == nullptr ? sqlite3_errstr(code) : sqlite3_errmsg(database));
}

}  // namespace

Statement::~Statement() {
  if (prepared_) {
    sqlite3_reset(prepared_.get());
    sqlite3_clear_bindings(prepared_.get());
  }
}

void Statement::note(int code) {
  if (code != SQLITE_OK && bind_error_ == SQLITE_OK) {
    bind_error_ = code;
  }
}

void Statement::bind_one(std::string_view text) {
  // A view without data would bind NULL.
  const char* const data = text.data() == nullptr ? "" : text.data();
  note(sqlite3_bind_text64(prepared_.get(), next_parameter_++, data, text.size(), SQLITE_TRANSIENT,
                           SQLITE_UTF8));
}

void Statement::bind_one(std::nullopt_t /*nothing*/) {
  note(sqlite3_bind_null(prepared_.get(), next_parameter_++));
}

void Statement::bind_int(int64_t value) {
  note(sqlite3_bind_int64(prepared_.get(), next_parameter_++, value));
}

Result<bool> Statement::step() {
  if (bind_error_ != SQLITE_OK) {
    return database_error(nullptr, bind_error_, "bind a value");
  }
  const int code = sqlite3_step(prepared_.get());
  if (code == SQLITE_ROW) {
    return true;
  }
  if (code == SQLITE_DONE) {
    return false;
  }
  return database_error(database_, code, "run a statement");
}

Result<void> Statement::run() {
  for (;;) {
    ASSIGN_OR_RETURN(const bool more, step());
    if (!more) {
      return {};
    }
  }
}

int64_t Statement::get_int(int column) const {
  return sqlite3_column_int64(prepared_.get(), column);
}

std::string_view Statement::get_text(int column) const {
  const auto* const text =
      reinterpret_cast<const char*>(sqlite3_column_text(prepared_.get(), column));
  const int size = sqlite3_column_bytes(prepared_.get(), column);
  return text == nullptr ? std::string_view() : std::string_view(text, static_cast<size_t>(size));
}

bool Statement::is_null(int column) const {
  return sqlite3_column_type(prepared_.get(), column) == SQLITE_NULL;
}

Result<Database> Database::open(const std::string& path) {
  sqlite3* opened = nullptr;
  // NOMUTEX: one thread at a time is the owner's promise.
  const int code = sqlite3_open_v2(
      path.c_str(), &opened,
      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE,
      nullptr);
  Handle handle(opened);
  if (code != SQLITE_OK) {
    return database_error(opened, code, base::cat("open ", path));
  }
  sqlite3_busy_timeout(opened, kBusyMilliseconds);
  Database database(std::move(handle));
  // NORMAL syncs the log at checkpoints only: a killed process loses nothing, a power cut may lose
  // the last moments but never breaks the file. The log may grow to 4000 pages (16 MiB), so that
  // pages that change again and again are copied back once.
  RETURN_IF_ERROR(base::with_context(
      database.execute_script("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; "
                              "PRAGMA foreign_keys = ON; PRAGMA temp_store = MEMORY; "
                              "PRAGMA wal_autocheckpoint = 4000"),
      base::cat("open ", path)));
  return database;
}

Result<Statement> Database::prepare(std::string_view sql) {
  const auto found = cache_.find(sql);
  if (found != cache_.end()) {
    if (found->second.use_count() > 1) {
      return fail(ErrorCode::internal, "database: a statement is used twice at once");
    }
    return Statement(handle_.get(), found->second);
  }
  sqlite3_stmt* made = nullptr;
  const int code = sqlite3_prepare_v3(handle_.get(), sql.data(), static_cast<int>(sql.size()),
                                      SQLITE_PREPARE_PERSISTENT, &made, nullptr);
  Prepared prepared(made, &sqlite3_finalize);
  if (code != SQLITE_OK) {
    return database_error(handle_.get(), code, "prepare a statement");
  }
  ++prepared_count_;
  // $1, $2, ... are names to SQLite, numbered as they appear: the two must agree.
  const int count = sqlite3_bind_parameter_count(made);
  for (int i = 1; i <= count; ++i) {
    const char* const name = sqlite3_bind_parameter_name(made, i);
    if (name == nullptr || base::cat("$", i) != name) {
      return fail(ErrorCode::internal, "database: parameter ", i, " of a statement is not $", i);
    }
  }
  if (cache_.size() >= kStatementsMax) {
    cache_.clear();  // those in use stay alive by their Statement
  }
  cache_.emplace(std::string(sql), prepared);
  return Statement(handle_.get(), std::move(prepared));
}

Result<void> Database::execute_script(const std::string& sql) {
  const int code = sqlite3_exec(handle_.get(), sql.c_str(), nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) {
    return database_error(handle_.get(), code, "run a script");
  }
  return {};
}

int64_t Database::changes() const { return sqlite3_changes64(handle_.get()); }

// IMMEDIATE takes the write lock at once, so that no transaction has to be repeated midway.
Result<void> Database::begin() {
  roll_back();  // what a rollback that failed has left open
  auto begun = execute("BEGIN IMMEDIATE");
  if (!begun) {
    roll_back();  // it may have begun before it failed
  }
  return begun;
}

Result<void> Database::commit() {
  auto committed = execute("COMMIT");
  if (!committed) {
    roll_back();
  }
  return committed;
}

void Database::roll_back() {
  // Some failures (disk full, interrupt) have rolled back already.
  if (sqlite3_get_autocommit(handle_.get()) == 0) {
    sqlite3_exec(handle_.get(), "ROLLBACK", nullptr, nullptr, nullptr);
  }
}

}  // namespace store
