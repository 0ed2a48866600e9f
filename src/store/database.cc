#include "store/database.h"

#include "store/postgres_driver.h"
#include "store/sqlite_driver.h"
#include "store/store_url.h"

namespace store {
namespace {

// Statements kept; lists with filters make a few dozen texts. Beyond it the cache starts anew.
constexpr size_t kStatementsMax = 256;

}  // namespace

Statement::~Statement() {
  if (compiled_) {
    compiled_->reset();
  }
}

Result<void> Statement::run() {
  for (;;) {
    ASSIGN_OR_RETURN(const bool more, step());
    if (!more) {
      return {};
    }
  }
}

Result<Database> Database::open(const std::string& url) {
  ASSIGN_OR_RETURN(const StoreUrl parsed, parse_store_url(url));
  if (parsed.engine == StoreEngine::postgresql) {
    ASSIGN_OR_RETURN(auto connection, PostgresConnection::open(parsed));
    return Database(std::move(connection));
  }
  ASSIGN_OR_RETURN(auto connection, SqliteConnection::open(parsed.target));
  return Database(std::move(connection));
}

Result<Statement> Database::prepare(std::string_view sql) {
  const auto found = cache_.find(sql);
  if (found != cache_.end()) {
    if (found->second.use_count() > 1) {
      return base::fail(base::ErrorCode::internal, "database: a statement is used twice at once");
    }
    return Statement(found->second);
  }
  ASSIGN_OR_RETURN(auto compiled, connection_->compile(sql));
  ++prepared_count_;
  if (cache_.size() >= kStatementsMax) {
    cache_.clear();  // those in use stay alive by their Statement
  }
  cache_.emplace(std::string(sql), compiled);
  return Statement(std::move(compiled));
}

}  // namespace store
