#include "store/migrations.h"

#include <set>

namespace store {
namespace {

using base::ErrorCode;

constexpr std::string_view kTable = "schema_version";

Result<std::set<int64_t>> present_versions(Database& database) {
  std::set<int64_t> out;
  ASSIGN_OR_RETURN(const bool exists, database.connection().has_table(kTable));
  if (!exists) {
    return out;
  }
  ASSIGN_OR_RETURN(Statement statement, database.prepare("SELECT version FROM schema_version"));
  for (;;) {
    ASSIGN_OR_RETURN(const bool more, statement.step());
    if (!more) {
      return out;
    }
    out.insert(statement.get_int(0));
  }
}

// True: it was applied now; false: another program has been faster.
Result<bool> apply(Database& database, const Migration& step) {
  const auto work = [&]() -> Result<bool> {
    RETURN_IF_ERROR(database.execute_script(
        "CREATE TABLE IF NOT EXISTS schema_version (version BIGINT NOT NULL PRIMARY KEY)"));
    ASSIGN_OR_RETURN(const auto present, present_versions(database));
    if (present.contains(step.version)) {
      return false;
    }
    RETURN_IF_ERROR(database.execute_script(database.connection().schema_text(step.sql)));
    RETURN_IF_ERROR(
        database.execute("INSERT INTO schema_version (version) VALUES ($1)", step.version));
    return true;
  };
  return base::with_context(database.transaction(work),
                            base::cat("migrate the store to version ", step.version));
}

}  // namespace

Result<std::vector<Migration>> pending_migrations(Database& database,
                                                  std::span<const Migration> steps) {
  ASSIGN_OR_RETURN(auto present, present_versions(database));
  std::vector<Migration> out;
  for (const Migration& step : steps) {
    if (present.erase(step.version) == 0) {
      out.push_back(step);
    }
  }
  if (!present.empty()) {
    return base::fail(ErrorCode::not_supported, "the store has schema version ", *present.rbegin(),
                      ", this program knows up to ", steps.empty() ? 0 : steps.back().version,
                      ": it was used by a newer program; start that one");
  }
  return out;
}

Result<std::vector<Migration>> migrate(Database& database, std::span<const Migration> steps) {
  ASSIGN_OR_RETURN(const auto pending, pending_migrations(database, steps));
  std::vector<Migration> done;
  if (pending.empty()) {
    return done;
  }
  database.connection().allow_long_statements(true);
  for (const Migration& step : pending) {
    auto applied = apply(database, step);
    if (!applied) {
      database.connection().allow_long_statements(false);
      return std::unexpected(std::move(applied).error());
    }
    if (*applied) {
      done.push_back(step);
    }
  }
  database.connection().allow_long_statements(false);
  return done;
}

}  // namespace store
