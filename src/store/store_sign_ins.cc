// The store's sign-ins of people.
#include "store/change_feed.h"
#include "store/read_rows.h"
#include "store/store.h"

namespace store {
namespace {

constexpr std::string_view kColumns =
    "id, kind, subject, remote, created_ms, expires_ms, last_used_ms";

Result<SignIn> read_sign_in(const Statement& row) {
  return SignIn{.id = std::string(row.get_text(0)),
                .kind = std::string(row.get_text(1)),
                .subject = std::string(row.get_text(2)),
                .remote = std::string(row.get_text(3)),
                .created_ms = row.get_int(4),
                .expires_ms = row.get_int(5),
                .last_used_ms = row.get_int(6)};
}

}  // namespace

Result<void> Store::insert_sign_in(const SignIn& row) {
  static const std::string sql =
      base::cat("INSERT INTO sign_ins (", kColumns, ") VALUES ($1, $2, $3, $4, $5, $6, $7)");
  const auto work = [&]() -> Result<void> {
    database_.note(notice::kTokens);
    RETURN_IF_ERROR(
        database_.execute("DELETE FROM sign_ins WHERE expires_ms <= $1", row.created_ms));
    return database_.execute(sql, row.id, row.kind, row.subject, row.remote, row.created_ms,
                             row.expires_ms, row.last_used_ms);
  };
  return base::with_context(database_.transaction(work), base::cat("insert sign-in ", row.id));
}

Result<std::vector<SignIn>> Store::list_sign_ins() {
  static const std::string sql = base::cat("SELECT ", kColumns, " FROM sign_ins");
  ASSIGN_OR_RETURN(Statement statement, database_.prepare(sql));
  return read_rows<SignIn>(statement, read_sign_in);
}

Result<std::optional<SignIn>> Store::find_sign_in(std::string_view id) {
  static const std::string sql = base::cat("SELECT ", kColumns, " FROM sign_ins WHERE id = $1");
  ASSIGN_OR_RETURN(Statement statement, database_.prepare(sql));
  ASSIGN_OR_RETURN(auto rows, read_rows<SignIn>(statement.bind(id), read_sign_in));
  return rows.empty() ? std::nullopt : std::optional(std::move(rows.front()));
}

Result<void> Store::touch_sign_in(std::string_view id, int64_t used_ms) {
  return database_.execute(
      "UPDATE sign_ins SET last_used_ms = $1 WHERE id = $2 AND last_used_ms < $1", used_ms, id);
}

Result<void> Store::delete_sign_ins(const std::vector<std::string>& ids) {
  return database_.transaction([&]() -> Result<void> {
    for (const std::string& id : ids) {
      RETURN_IF_ERROR(database_.execute("DELETE FROM sign_ins WHERE id = $1", id));
    }
    database_.note(notice::kTokens);
    return {};
  });
}

}  // namespace store
