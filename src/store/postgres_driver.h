// PostgreSQL as a Connection, over libpq. Calls block, each with an end: a server that does not
// answer in kAnswerPatience counts as lost.
//
// A lost connection is made anew by the next call. While the outage is young (kYoungOutage) that
// call tries again and again: a restart costs time, not requests. The calls behind it wait for
// their turn on the store's thread, which has nothing else to do; they are as many as there are
// callers, and none of them waits for longer than the outage is young. When it is older, tries are
// made with a growing pause in which calls fail at once (unavailable).
//
// What is run again by itself: a read outside a transaction, and a transaction of which nothing was
// committed (Database::transaction). Whether a COMMIT without an answer took effect is read from
// store_writers, where each transaction leaves its number; only where the server stays away does
// the error say so (details.outcome = unknown).
//
// Writers take turns: a transaction begins with one advisory lock, so what it has read cannot
// change before it commits, just as with SQLite, whatever number of gateways share the database.
// SERIALIZABLE would let them run side by side and fail each time two append to the audit log.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "store/driver.h"
#include "store/postgres_connect.h"

namespace store {

class PostgresConnection final : public Connection {
 public:
  static Result<std::unique_ptr<PostgresConnection>> open(const StoreUrl& url);

  Result<std::shared_ptr<Compiled>> compile(std::string_view sql) override;
  Result<void> run_script(const std::string& sql) override;
  [[nodiscard]] int64_t changes() const override { return changes_; }
  Result<void> begin() override;
  Result<void> commit() override;
  void roll_back() override;
  void note(std::string notice) override;
  [[nodiscard]] std::string_view writer() const override { return writer_; }
  [[nodiscard]] bool may_repeat() const override { return may_repeat_; }
  [[nodiscard]] std::string_view time_sql() const override {
    return "SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)";
  }
  [[nodiscard]] std::string schema_text(std::string_view sql) const override;
  Result<bool> has_table(std::string_view name) override;
  void allow_long_statements(bool allowed) override;
  void be_patient(bool patient) override { patient_ = patient; }
  [[nodiscard]] bool is_waiting() const override { return waiting_; }

  // --- for PostgresStatement
  struct ClearResult {
    void operator()(PGresult* result) const { PQclear(result); }
  };
  using Answer = std::unique_ptr<PGresult, ClearResult>;
  // A statement's name on the server; it is known there while `generation` is this connection's.
  struct Name {
    std::string text;
    int64_t generation = 0;
  };
  struct Values {
    std::vector<const char*> texts;  // nullptr: NULL
  };
  // Runs it, prepared before where it is not.
  Result<Answer> execute(Name& name, const std::string& sql, const Values& values);
  Name new_name();
  void forget(const Name& name);

 private:
  using Clock = std::chrono::steady_clock;

  explicit PostgresConnection(StoreUrl url);
  // A connection that was alive a moment ago, made anew if need be.
  Result<void> ensure_connected();
  Result<void> connect();
  // Once, where the pause is over.
  Result<void> try_connect();
  [[nodiscard]] bool is_young_outage() const;
  Result<void> open_handle();
  void lose();
  Result<Answer> simple(const std::string& sql);
  Result<Answer> execute_once(Name& name, const std::string& sql, const Values& values);
  // Waits for the last result of what was sent.
  Result<Answer> await_answer(std::string_view step);
  Result<void> flush(Clock::time_point deadline);
  Result<void> wait_socket(short events, Clock::time_point deadline);
  Result<Answer> checked(Answer answer, std::string_view step);
  std::unexpected<base::Error> lost(std::string_view step);
  Result<void> find_out_outcome();
  // Whether the transaction of that number was committed, once it is certainly over.
  Result<bool> was_committed();
  [[nodiscard]] std::string settings_script() const;
  [[nodiscard]] std::string begin_script() const;
  [[nodiscard]] std::string commit_script() const;

  StoreUrl url_;
  PostgresHandle handle_;
  int64_t generation_ = 0;  // counts connections
  int64_t names_ = 0;
  std::vector<std::string> forgotten_;  // names to be given back to the server
  int64_t changes_ = 0;
  bool in_transaction_ = false;
  bool may_repeat_ = false;
  bool long_statements_ = false;
  // What this connection's transactions leave in store_writers.
  std::string writer_;
  int64_t transaction_ = 0;
  std::vector<std::string> notices_;             // of the transaction, each once
  bool has_writers_ = false;                     // the table; false before the schema has it
  std::optional<Clock::time_point> away_since_;  // the first try that failed
  bool patient_ = true;
  std::atomic<bool> waiting_ = false;
  Clock::time_point next_try_;
  std::chrono::milliseconds pause_{0};
};

}  // namespace store
