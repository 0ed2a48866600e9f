// Database and Statement: SQLite's C interface with owners and Results. One connection, used by
// one thread at a time (the store's pool thread). Statements are prepared once per text and kept.
// Parameters are $1, $2, ... in the order of first use, which is also what PostgreSQL takes.
#pragma once

#include <sqlite3.h>

#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/error.h"

namespace store {

using base::Result;

using Prepared = std::shared_ptr<sqlite3_stmt>;

// One run of a prepared statement. Reset when it goes; the database outlives it.
class Statement {
 public:
  Statement(sqlite3* database, Prepared prepared)
      : database_(database), prepared_(std::move(prepared)) {}
  Statement(Statement&& other) noexcept = default;
  Statement& operator=(Statement&&) = delete;
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;
  ~Statement();

  // Binds $1, $2, ... in turn; texts are copied. Binding fails only for a bug (too many) or
  // memory; step() then reports it.
  template <typename... Values>
  Statement& bind(const Values&... values) {
    (bind_one(values), ...);
    return *this;
  }

  // The next row: true and its columns can be read; false at the end.
  Result<bool> step();
  // Runs to the end; rows are passed over.
  Result<void> run();

  [[nodiscard]] int64_t get_int(int column) const;
  [[nodiscard]] bool get_bool(int column) const { return get_int(column) != 0; }
  // Holds until the next step.
  [[nodiscard]] std::string_view get_text(int column) const;
  [[nodiscard]] bool is_null(int column) const;

 private:
  void bind_one(std::string_view text);
  void bind_one(const std::string& text) { bind_one(std::string_view(text)); }
  void bind_one(const char* text) { bind_one(std::string_view(text)); }
  void bind_one(std::nullopt_t nothing);
  void bind_int(int64_t value);
  template <std::integral T>
  void bind_one(T value) {
    bind_int(static_cast<int64_t>(value));
  }
  template <typename T>
  void bind_one(const std::optional<T>& value) {
    if (value) {
      bind_one(*value);
    } else {
      bind_one(std::nullopt);
    }
  }
  void note(int code);

  sqlite3* database_;
  Prepared prepared_;
  int next_parameter_ = 1;
  int bind_error_ = 0;
};

class Database {
 public:
  // Opens or makes the file: WAL, synchronous=NORMAL, foreign keys on.
  static Result<Database> open(const std::string& path);

  // The statement of that text, from the cache where it was used before.
  Result<Statement> prepare(std::string_view sql);
  // prepare, bind, run.
  template <typename... Values>
  Result<void> execute(std::string_view sql, const Values&... values) {
    ASSIGN_OR_RETURN(Statement statement, prepare(sql));
    return statement.bind(values...).run();
  }
  // Several statements without parameters.
  Result<void> execute_script(const std::string& sql);
  // Rows that the last INSERT, UPDATE or DELETE touched.
  [[nodiscard]] int64_t changes() const;

  // Runs `work` (a callable that returns a Result) in one transaction: committed if it succeeds,
  // rolled back if it fails. Not nested.
  template <typename Work>
  auto transaction(Work&& work) -> decltype(work()) {
    RETURN_IF_ERROR(begin());
    auto result = work();
    if (!result) {
      roll_back();
      return result;
    }
    RETURN_IF_ERROR(commit());
    return result;
  }

  // How many statements were compiled so far: a steady program stops compiling.
  [[nodiscard]] int64_t prepared_count() const { return prepared_count_; }
  // For tests that make it fail.
  [[nodiscard]] sqlite3* native() const { return handle_.get(); }

 private:
  struct CloseDatabase {
    void operator()(sqlite3* handle) const { sqlite3_close_v2(handle); }
  };
  struct HashText {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };
  using Handle = std::unique_ptr<sqlite3, CloseDatabase>;

  explicit Database(Handle handle) : handle_(std::move(handle)) {}
  Result<void> begin();
  Result<void> commit();
  void roll_back();

  Handle handle_;
  std::unordered_map<std::string, Prepared, HashText, std::equal_to<>> cache_;
  int64_t prepared_count_ = 0;
};

}  // namespace store
