#include "store/store.h"

#include "store/change_feed.h"
#include "store/json_text.h"
#include "store/migrations.h"
#include "store/read_rows.h"

namespace store {
namespace {

using base::ErrorCode;
using base::fail;

constexpr std::string_view kRegistryColumns = "host, username, secret_sealed, mirror, plain_http";

Result<Registry> read_registry(const Statement& row) {
  ASSIGN_OR_RETURN(auto secret, unseal_text(row.get_text(2)));
  return Registry{.host = std::string(row.get_text(0)),
                  .username = std::string(row.get_text(1)),
                  .secret_sealed = std::move(secret),
                  .mirror = std::string(row.get_text(3)),
                  .plain_http = row.get_bool(4)};
}

}  // namespace

Result<std::unique_ptr<Store>> Store::open(const std::string& url) {
  ASSIGN_OR_RETURN(Database database, Database::open(url));
  RETURN_IF_ERROR(migrate(database, migrations()));
  return std::unique_ptr<Store>(new Store(std::move(database)));
}

Result<void> Store::check() {
  database_.connection().be_patient(false);
  auto done = database_.execute("SELECT name FROM teams WHERE name = 'default'");
  database_.connection().be_patient(true);
  return done;
}

Result<void> Store::put_registry(std::string_view team, const Registry& registry) {
  const auto work = [&]() -> Result<void> {
    database_.note(notice::kRegistries);
    return database_.execute(
        "INSERT INTO registries (team, host, username, secret_sealed, mirror, plain_http) "
        "VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (team, host) DO UPDATE SET "
        "username = excluded.username, secret_sealed = excluded.secret_sealed, "
        "mirror = excluded.mirror, plain_http = excluded.plain_http",
        team, registry.host, registry.username, seal_text(registry.secret_sealed), registry.mirror,
        registry.plain_http);
  };
  return base::with_context(database_.transaction(work), base::cat("put registry ", registry.host));
}

Result<Registry> Store::find_registry(std::string_view team, std::string_view host) {
  static const std::string sql =
      base::cat("SELECT ", kRegistryColumns, " FROM registries WHERE team = $1 AND host = $2");
  ASSIGN_OR_RETURN(Statement statement, database_.prepare(sql));
  ASSIGN_OR_RETURN(const bool found, statement.bind(team, host).step());
  if (!found) {
    return fail(ErrorCode::not_found, "registry ", host, " is not set up");
  }
  return read_registry(statement);
}

Result<std::vector<Registry>> Store::list_registries(std::string_view team) {
  static const std::string sql =
      base::cat("SELECT ", kRegistryColumns, " FROM registries WHERE team = $1 ORDER BY host");
  ASSIGN_OR_RETURN(Statement statement, database_.prepare(sql));
  return read_rows<Registry>(statement.bind(team), read_registry);
}

Result<void> Store::delete_registry(std::string_view team, std::string_view host) {
  const auto work = [&]() -> Result<void> {
    RETURN_IF_ERROR(
        database_.execute("DELETE FROM registries WHERE team = $1 AND host = $2", team, host));
    if (database_.changes() == 0) {
      return fail(ErrorCode::not_found, "registry ", host, " is not set up");
    }
    database_.note(notice::kRegistries);
    return {};
  };
  return database_.transaction(work);
}

}  // namespace store
