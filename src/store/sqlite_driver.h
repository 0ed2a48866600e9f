// SQLite as a Connection: one file, opened or made; a transaction takes the write lock at once.
#pragma once

#include <sqlite3.h>

#include "store/driver.h"

namespace store {

class SqliteConnection final : public Connection {
 public:
  // WAL, synchronous=NORMAL, foreign keys on.
  static Result<std::unique_ptr<SqliteConnection>> open(const std::string& path);

  Result<std::shared_ptr<Compiled>> compile(std::string_view sql) override;
  Result<void> run_script(const std::string& sql) override;
  [[nodiscard]] int64_t changes() const override;
  Result<void> begin() override;
  Result<void> commit() override;
  void roll_back() override;
  // A file has one program that writes.
  void note(std::string /*notice*/) override {}
  [[nodiscard]] std::string_view writer() const override { return ""; }
  [[nodiscard]] bool may_repeat() const override { return false; }
  [[nodiscard]] std::string_view time_sql() const override { return ""; }
  [[nodiscard]] std::string schema_text(std::string_view sql) const override {
    return std::string(sql);
  }
  Result<bool> has_table(std::string_view name) override;
  void allow_long_statements(bool /*allowed*/) override {}
  void be_patient(bool /*patient*/) override {}
  [[nodiscard]] bool is_waiting() const override { return false; }

  // For tests that make it fail.
  [[nodiscard]] sqlite3* native() const { return handle_.get(); }

 private:
  struct CloseDatabase {
    void operator()(sqlite3* handle) const { sqlite3_close_v2(handle); }
  };
  using Handle = std::unique_ptr<sqlite3, CloseDatabase>;

  explicit SqliteConnection(Handle handle) : handle_(std::move(handle)) {}

  Handle handle_;
  std::shared_ptr<Compiled> begin_;
  std::shared_ptr<Compiled> commit_;
};

}  // namespace store
