// The schema's steps, embedded by cmake/Migrations.cmake from migrations/NNNN_*.sql. A step that
// was released is never edited; a change is a new step. Steps are SQL that SQLite and PostgreSQL
// both take; the two words that cannot be are put right by Connection::schema_text.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/error.h"
#include "store/database.h"

namespace store {

struct Migration {
  int64_t version = 0;  // NNNN: the versions a database has are those of its steps
  const char* name = "";
  const char* sql = "";
};

// By version.
std::span<const Migration> migrations();
// Those of `steps` that the database has not had yet. not_supported: it has had one that is not
// among them, so a newer program used it.
Result<std::vector<Migration>> pending_migrations(Database& database,
                                                  std::span<const Migration> steps);
// Brings the database to the version of this program, each step in a transaction of its own: of
// several programs that start together one does it and the others wait. Returns what it did.
Result<std::vector<Migration>> migrate(Database& database, std::span<const Migration> steps);

}  // namespace store
