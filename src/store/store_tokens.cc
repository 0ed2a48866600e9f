// The store's tokens.
#include "store/change_feed.h"
#include "store/json_text.h"
#include "store/read_rows.h"
#include "store/store.h"

namespace store {
namespace {

using base::ErrorCode;
using base::fail;

constexpr std::string_view kTokenColumns =
    "id, name, team, subject, role, scopes, hash, created_ms, expires_ms, last_used_ms, of_member, "
    "every_team";

Result<Token> read_token(const Statement& row) {
  ASSIGN_OR_RETURN(auto scopes, parse_list(row.get_text(5)));
  const auto role = model::parse_role(row.get_text(4));
  if (!role) {
    return fail(ErrorCode::internal, "a token's role in the database is not known");
  }
  return Token{.id = std::string(row.get_text(0)),
               .name = std::string(row.get_text(1)),
               .team = std::string(row.get_text(2)),
               .subject = std::string(row.get_text(3)),
               .role = *role,
               .scopes = std::move(scopes),
               .hash = std::string(row.get_text(6)),
               .created_ms = row.get_int(7),
               .expires_ms = row.get_int(8),
               .last_used_ms = row.get_int(9),
               .of_member = row.get_bool(10),
               .every_team = row.get_bool(11)};
}

}  // namespace

Result<void> Store::insert_token(const Token& token) {
  static const std::string sql =
      base::cat("INSERT INTO tokens (", kTokenColumns,
                ") VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)");
  const auto work = [&]() -> Result<void> {
    database_.note(notice::kTokens);
    return database_.execute(sql, token.id, token.name, token.team, token.subject,
                             model::to_string(token.role), list_text(token.scopes), token.hash,
                             token.created_ms, token.expires_ms, token.last_used_ms,
                             token.of_member, token.every_team);
  };
  return base::with_context(database_.transaction(work), base::cat("insert token ", token.id));
}

Result<std::vector<Token>> Store::list_tokens() {
  static const std::string sql =
      base::cat("SELECT ", kTokenColumns, " FROM tokens ORDER BY created_ms, id");
  ASSIGN_OR_RETURN(Statement statement, database_.prepare(sql));
  return read_rows<Token>(statement, read_token);
}

Result<std::optional<Token>> Store::find_token_by_hash(std::string_view hash) {
  static const std::string sql =
      base::cat("SELECT ", kTokenColumns, " FROM tokens WHERE hash = $1");
  ASSIGN_OR_RETURN(Statement statement, database_.prepare(sql));
  ASSIGN_OR_RETURN(auto rows, read_rows<Token>(statement.bind(hash), read_token));
  return rows.empty() ? std::nullopt : std::optional(std::move(rows.front()));
}

Result<void> Store::touch_token(std::string_view id, int64_t used_ms) {
  return database_.execute(
      "UPDATE tokens SET last_used_ms = $1 WHERE id = $2 AND last_used_ms < $1", used_ms, id);
}

Result<void> Store::delete_token(std::string_view team, std::string_view id) {
  const auto work = [&]() -> Result<void> {
    RETURN_IF_ERROR(database_.execute("DELETE FROM tokens WHERE team = $1 AND id = $2", team, id));
    if (database_.changes() == 0) {
      return fail(ErrorCode::not_found, "token ", id, " does not exist");
    }
    database_.note(notice::kTokens);
    return {};
  };
  return database_.transaction(work);
}

}  // namespace store
