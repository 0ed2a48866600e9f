#include "store/store.h"

#include "store/json_text.h"
#include "store/migrations.h"

namespace store {
namespace {

using base::ErrorCode;
using base::fail;

constexpr std::string_view kTeamColumns =
    "name, image_prefixes, builds, max_millicpus, max_memory_mb, max_storage_mb, quota_millicpus, "
    "quota_memory_mb, quota_storage_mb, quota_sandboxes, default_storage_mb, lease_sec, "
    "max_lifetime_sec, queue_max_sec, start_max_sec, pids, isolation, network";
constexpr std::string_view kTokenColumns =
    "id, name, team, subject, role, scopes, hash, created_ms, expires_ms, last_used_ms";
constexpr std::string_view kRegistryColumns = "host, username, secret_sealed, mirror, plain_http";

Result<Team> read_team(const Statement& row) {
  ASSIGN_OR_RETURN(auto image_prefixes, parse_list(row.get_text(1)));
  ASSIGN_OR_RETURN(auto isolation, parse_list(row.get_text(16)));
  return Team{.name = std::string(row.get_text(0)),
              .image_prefixes = std::move(image_prefixes),
              .builds = row.get_bool(2),
              .max_millicpus = row.get_int(3),
              .max_memory_mb = row.get_int(4),
              .max_storage_mb = row.get_int(5),
              .quota_millicpus = row.get_int(6),
              .quota_memory_mb = row.get_int(7),
              .quota_storage_mb = row.get_int(8),
              .quota_sandboxes = row.get_int(9),
              .default_storage_mb = row.get_int(10),
              .lease_sec = row.get_int(11),
              .max_lifetime_sec = row.get_int(12),
              .queue_max_sec = row.get_int(13),
              .start_max_sec = row.get_int(14),
              .pids = row.get_int(15),
              .isolation = std::move(isolation),
              .network = std::string(row.get_text(17))};
}

Result<Token> read_token(const Statement& row) {
  ASSIGN_OR_RETURN(auto scopes, parse_list(row.get_text(5)));
  return Token{.id = std::string(row.get_text(0)),
               .name = std::string(row.get_text(1)),
               .team = std::string(row.get_text(2)),
               .subject = std::string(row.get_text(3)),
               .role = std::string(row.get_text(4)),
               .scopes = std::move(scopes),
               .hash = std::string(row.get_text(6)),
               .created_ms = row.get_int(7),
               .expires_ms = row.get_int(8),
               .last_used_ms = row.get_int(9)};
}

Result<Registry> read_registry(const Statement& row) {
  ASSIGN_OR_RETURN(auto secret, unseal_text(row.get_text(2)));
  return Registry{.host = std::string(row.get_text(0)),
                  .username = std::string(row.get_text(1)),
                  .secret_sealed = std::move(secret),
                  .mirror = std::string(row.get_text(3)),
                  .plain_http = row.get_bool(4)};
}

// All rows of a statement, each by `read`.
template <typename T>
Result<std::vector<T>> read_rows(Statement& statement, Result<T> (*read)(const Statement&)) {
  std::vector<T> out;
  for (;;) {
    ASSIGN_OR_RETURN(const bool more, statement.step());
    if (!more) {
      return out;
    }
    ASSIGN_OR_RETURN(T row, read(statement));
    out.push_back(std::move(row));
  }
}

}  // namespace

Result<std::unique_ptr<Store>> Store::open(const std::string& path) {
  ASSIGN_OR_RETURN(Database database, Database::open(path));
  RETURN_IF_ERROR(migrate(database, migrations()));
  return std::unique_ptr<Store>(new Store(std::move(database)));
}

Result<void> Store::check() {
  return database_.execute("SELECT name FROM teams WHERE name = 'default'");
}

Result<Team> Store::find_team(std::string_view name) {
  static const std::string sql = base::cat("SELECT ", kTeamColumns, " FROM teams WHERE name = $1");
  ASSIGN_OR_RETURN(Statement statement, database_.prepare(sql));
  ASSIGN_OR_RETURN(const bool found, statement.bind(name).step());
  if (!found) {
    return fail(ErrorCode::not_found, "team ", name, " does not exist");
  }
  return read_team(statement);
}

Result<std::vector<Team>> Store::list_teams() {
  static const std::string sql = base::cat("SELECT ", kTeamColumns, " FROM teams ORDER BY name");
  ASSIGN_OR_RETURN(Statement statement, database_.prepare(sql));
  return read_rows<Team>(statement, read_team);
}

Result<void> Store::insert_token(const Token& token) {
  static const std::string sql = base::cat("INSERT INTO tokens (", kTokenColumns,
                                           ") VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)");
  return base::with_context(
      database_.execute(sql, token.id, token.name, token.team, token.subject, token.role,
                        list_text(token.scopes), token.hash, token.created_ms, token.expires_ms,
                        token.last_used_ms),
      base::cat("insert token ", token.id));
}

Result<Token> Store::find_token_by_hash(std::string_view hash) {
  static const std::string sql =
      base::cat("SELECT ", kTokenColumns, " FROM tokens WHERE hash = $1");
  ASSIGN_OR_RETURN(Statement statement, database_.prepare(sql));
  ASSIGN_OR_RETURN(const bool found, statement.bind(hash).step());
  if (!found) {
    return fail(ErrorCode::not_found, "no token has this secret");
  }
  return read_token(statement);
}

Result<std::vector<Token>> Store::list_tokens(std::string_view team) {
  static const std::string sql =
      base::cat("SELECT ", kTokenColumns, " FROM tokens WHERE team = $1 ORDER BY created_ms, id");
  ASSIGN_OR_RETURN(Statement statement, database_.prepare(sql));
  return read_rows<Token>(statement.bind(team), read_token);
}

Result<void> Store::touch_token(std::string_view id, int64_t used_ms) {
  return database_.execute(
      "UPDATE tokens SET last_used_ms = $1 WHERE id = $2 AND last_used_ms < $1", used_ms, id);
}

Result<void> Store::delete_token(std::string_view team, std::string_view id) {
  RETURN_IF_ERROR(database_.execute("DELETE FROM tokens WHERE team = $1 AND id = $2", team, id));
  if (database_.changes() == 0) {
    return fail(ErrorCode::not_found, "token ", id, " does not exist");
  }
  return {};
}

Result<void> Store::put_registry(std::string_view team, const Registry& registry) {
  return base::with_context(
      database_.execute(
          "INSERT INTO registries (team, host, username, secret_sealed, mirror, plain_http) "
          "VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (team, host) DO UPDATE SET "
          "username = excluded.username, secret_sealed = excluded.secret_sealed, "
          "mirror = excluded.mirror, plain_http = excluded.plain_http",
          team, registry.host, registry.username, seal_text(registry.secret_sealed),
          registry.mirror, registry.plain_http),
      base::cat("put registry ", registry.host));
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
  RETURN_IF_ERROR(
      database_.execute("DELETE FROM registries WHERE team = $1 AND host = $2", team, host));
  if (database_.changes() == 0) {
    return fail(ErrorCode::not_found, "registry ", host, " is not set up");
  }
  return {};
}

}  // namespace store
