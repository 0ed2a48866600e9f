// Database and Statement: SQL with values, rows and Results over one Connection (driver.h), used by
// one thread at a time (the store's pool thread). Statements are prepared once per text and kept.
// Parameters are $1, $2, ... in the order of first use: what SQLite and PostgreSQL both take.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "store/driver.h"

namespace store {

using base::Result;

// One run of a prepared statement. Reset when it goes; the database outlives it.
class Statement {
 public:
  explicit Statement(std::shared_ptr<Compiled> compiled) : compiled_(std::move(compiled)) {}
  Statement(Statement&& other) noexcept = default;
  Statement& operator=(Statement&&) = delete;
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;
  ~Statement();

  // Binds $1, $2, ... in turn; texts are copied. Binding fails only for a bug (too many), memory,
  // or a text that the engine cannot hold; step() then reports it.
  template <typename... Values>
  Statement& bind(const Values&... values) {
    (bind_one(values), ...);
    return *this;
  }

  // The next row: true and its columns can be read; false at the end.
  Result<bool> step() { return compiled_->step(); }
  // Runs to the end; rows are passed over.
  Result<void> run();

  [[nodiscard]] int64_t get_int(int column) const { return compiled_->get_int(column); }
  [[nodiscard]] bool get_bool(int column) const { return get_int(column) != 0; }
  // Holds until the next step.
  [[nodiscard]] std::string_view get_text(int column) const { return compiled_->get_text(column); }
  [[nodiscard]] bool is_null(int column) const { return compiled_->is_null(column); }

 private:
  void bind_one(std::string_view text) { compiled_->bind_text(next_parameter_++, text); }
  void bind_one(const std::string& text) { bind_one(std::string_view(text)); }
  void bind_one(const char* text) { bind_one(std::string_view(text)); }
  void bind_one(std::nullopt_t /*nothing*/) { compiled_->bind_null(next_parameter_++); }
  template <std::integral T>
  void bind_one(T value) {
    compiled_->bind_int(next_parameter_++, static_cast<int64_t>(value));
  }
  template <typename T>
  void bind_one(const std::optional<T>& value) {
    if (value) {
      bind_one(*value);
    } else {
      bind_one(std::nullopt);
    }
  }

  std::shared_ptr<Compiled> compiled_;
  int next_parameter_ = 1;
};

class Database {
 public:
  // Of a URL as in store_url.h. invalid_field: it is none; unavailable: nothing answers there.
  static Result<Database> open(const std::string& url);

  // The statement of that text, from the cache where it was used before.
  Result<Statement> prepare(std::string_view sql);
  // prepare, bind, run.
  template <typename... Values>
  Result<void> execute(std::string_view sql, const Values&... values) {
    ASSIGN_OR_RETURN(Statement statement, prepare(sql));
    return statement.bind(values...).run();
  }
  // Several statements without parameters.
  Result<void> execute_script(const std::string& sql) { return connection_->run_script(sql); }
  // Rows that the last INSERT, UPDATE or DELETE touched.
  [[nodiscard]] int64_t changes() const { return connection_->changes(); }

  // Runs `work` (a callable that returns a Result) in one transaction: committed if it succeeds,
  // rolled back if it fails. Not nested. Of all programs on one database one is in a transaction
  // at a time. `work` is run again where the connection broke before anything was committed, so it
  // changes nothing but the database.
  template <typename Work>
  auto transaction(Work&& work) -> decltype(work()) {
    for (int run = 1;; ++run) {
      RETURN_IF_ERROR(connection_->begin());
      auto result = work();
      if (!result) {
        connection_->roll_back();
      } else if (auto committed = connection_->commit(); !committed) {
        result = std::unexpected(std::move(committed).error());
      }
      if (result || run == kRunsMax || !connection_->may_repeat()) {
        return result;
      }
    }
  }

  // Within a transaction: this is changed, for other programs on the database. `kind` is one of
  // notice:: (change_feed.h).
  void note(std::string_view kind, std::string_view id = "") {
    connection_->note(id.empty() ? std::string(kind) : base::cat(kind, ":", id));
  }

  // How many statements were compiled so far: a steady program stops compiling.
  [[nodiscard]] int64_t prepared_count() const { return prepared_count_; }
  [[nodiscard]] Connection& connection() { return *connection_; }

 private:
  // Of one transaction whose connection breaks each time.
  static constexpr int kRunsMax = 3;
  struct HashText {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };

  explicit Database(std::unique_ptr<Connection> connection) : connection_(std::move(connection)) {}

  std::unique_ptr<Connection> connection_;  // outlives its statements
  std::unordered_map<std::string, std::shared_ptr<Compiled>, HashText, std::equal_to<>> cache_;
  int64_t prepared_count_ = 0;
};

}  // namespace store
