#include "store/migrations.h"

namespace store {
namespace {

using base::ErrorCode;

Result<int64_t> schema_version(Database& database) {
  ASSIGN_OR_RETURN(Statement statement,
                   database.prepare("SELECT COALESCE(MAX(version), 0) FROM schema_version"));
  ASSIGN_OR_RETURN(const bool found, statement.step());
  return found ? statement.get_int(0) : 0;
}

}  // namespace

Result<void> migrate(Database& database, std::span<const char* const> steps) {
  RETURN_IF_ERROR(database.execute(
      "CREATE TABLE IF NOT EXISTS schema_version (version BIGINT NOT NULL PRIMARY KEY)"));
  ASSIGN_OR_RETURN(const int64_t present, schema_version(database));
  const auto known = static_cast<int64_t>(steps.size());
  if (present > known) {
    return base::fail(ErrorCode::unavailable, "the database has schema version ", present,
                      ", this program knows up to ", known,
                      ": it was used by a newer program; start that one");
  }
  for (int64_t version = present + 1; version <= known; ++version) {
    const auto apply = [&]() -> Result<void> {
      // Another process may have been faster: the transaction sees what it left.
      ASSIGN_OR_RETURN(const int64_t now, schema_version(database));
      if (now >= version) {
        return {};
      }
      RETURN_IF_ERROR(database.execute_script(steps[static_cast<size_t>(version - 1)]));
      return database.execute("INSERT INTO schema_version (version) VALUES ($1)", version);
    };
    RETURN_IF_ERROR(base::with_context(database.transaction(apply),
                                       base::cat("migrate the database to version ", version)));
  }
  return {};
}

}  // namespace store
