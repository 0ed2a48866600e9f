// What a database engine has to do for Database: Compiled and Connection, with one implementation
// for SQLite (sqlite_driver) and one for PostgreSQL (postgres_driver). Everything in which the two
// differ is behind this interface; the SQL of the store is what both take. Used by one thread at a
// time, owned by a Database.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"

namespace store {

using base::Result;

// A statement made ready once and run again and again. Its connection outlives it.
class Compiled {
 public:
  virtual ~Compiled() = default;
  // Parameters count from 1. Texts are copied. What cannot be bound is told by step().
  virtual void bind_text(int parameter, std::string_view text) = 0;
  virtual void bind_int(int parameter, int64_t value) = 0;  // booleans too: 0 and 1
  virtual void bind_null(int parameter) = 0;
  // The next row, false at the end. The first step runs the statement.
  virtual Result<bool> step() = 0;
  // Forgets rows and values.
  virtual void reset() = 0;
  [[nodiscard]] virtual int64_t get_int(int column) const = 0;
  // Holds until the next step.
  [[nodiscard]] virtual std::string_view get_text(int column) const = 0;
  [[nodiscard]] virtual bool is_null(int column) const = 0;
};

class Connection {
 public:
  virtual ~Connection() = default;

  virtual Result<std::shared_ptr<Compiled>> compile(std::string_view sql) = 0;
  // Several statements without parameters.
  virtual Result<void> run_script(const std::string& sql) = 0;
  // Rows that the last INSERT, UPDATE or DELETE touched.
  [[nodiscard]] virtual int64_t changes() const = 0;

  // A transaction that writes. Of all connections to one database one has it at a time, so what it
  // reads stays as it is until it commits.
  virtual Result<void> begin() = 0;
  virtual Result<void> commit() = 0;
  virtual void roll_back() = 0;  // or nothing, where none is open
  // In a transaction: what it changes, for other programs on the database (change_feed.h), who are
  // told when it commits. Of lower-case letters, digits, '-' and ':'.
  virtual void note(std::string notice) = 0;
  // By which the feed tells whose changes they are.
  [[nodiscard]] virtual std::string_view writer() const = 0;
  // After a failure: nothing of the transaction was committed, and it may succeed when it is run
  // again from its beginning.
  [[nodiscard]] virtual bool may_repeat() const = 0;

  // A SELECT of the server's own clock in milliseconds since 1970 UTC; empty: it has none.
  [[nodiscard]] virtual std::string_view time_sql() const = 0;
  // A migration's text as this engine takes it.
  [[nodiscard]] virtual std::string schema_text(std::string_view sql) const = 0;
  virtual Result<bool> has_table(std::string_view name) = 0;
  // Migrations may take longer than any statement of the gateway.
  virtual void allow_long_statements(bool allowed) = 0;
  // Whether calls wait a moment for a server that was lost a moment ago; they do unless told.
  virtual void be_patient(bool patient) = 0;
  // Whether one does so now. Any thread.
  [[nodiscard]] virtual bool is_waiting() const = 0;
};

}  // namespace store
