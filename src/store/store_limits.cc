// Limits that tokens have of their own.
#include "store/change_feed.h"
#include "store/read_rows.h"
#include "store/store.h"

namespace store {
namespace {

using base::ErrorCode;
using base::fail;

constexpr std::string_view kColumns =
    "requests_per_sec, burst, concurrent_creates, concurrent_streams, body_mb";

std::optional<int64_t> optional_int(const Statement& row, int column) {
  return row.is_null(column) ? std::nullopt : std::optional(row.get_int(column));
}

TokenLimits read_limits(const Statement& row) {
  return TokenLimits{.requests_per_sec = optional_int(row, 0),
                     .burst = optional_int(row, 1),
                     .concurrent_creates = optional_int(row, 2),
                     .concurrent_streams = optional_int(row, 3),
                     .body_mb = optional_int(row, 4)};
}

Result<std::pair<std::string, TokenLimits>> read_named(const Statement& row) {
  constexpr int kName = 5;
  return std::pair(std::string(row.get_text(kName)), read_limits(row));
}

Result<void> check_token(Database& database, std::string_view id) {
  ASSIGN_OR_RETURN(Statement statement, database.prepare("SELECT id FROM tokens WHERE id = $1"));
  ASSIGN_OR_RETURN(const bool found, statement.bind(id).step());
  return found ? Result<void>() : fail(ErrorCode::not_found, "token '", id, "' does not exist");
}

}  // namespace

Result<void> Store::put_token_limits(std::string_view token_id, const TokenLimits& limits) {
  const auto work = [&]() -> Result<void> {
    RETURN_IF_ERROR(check_token(database_, token_id));
    database_.note(notice::kTokenLimits);
    return database_.execute(
        "INSERT INTO token_limits (token_id, requests_per_sec, burst, concurrent_creates, "
        "concurrent_streams, body_mb) VALUES ($1, $2, $3, $4, $5, $6) "
        "ON CONFLICT (token_id) DO UPDATE SET requests_per_sec = excluded.requests_per_sec, "
        "burst = excluded.burst, concurrent_creates = excluded.concurrent_creates, "
        "concurrent_streams = excluded.concurrent_streams, body_mb = excluded.body_mb",
        token_id, limits.requests_per_sec, limits.burst, limits.concurrent_creates,
        limits.concurrent_streams, limits.body_mb);
  };
  return database_.transaction(work);
}

Result<TokenLimits> Store::find_token_limits(std::string_view token_id) {
  static const std::string sql =
      base::cat("SELECT ", kColumns, " FROM token_limits WHERE token_id = $1");
  RETURN_IF_ERROR(check_token(database_, token_id));
  ASSIGN_OR_RETURN(Statement statement, database_.prepare(sql));
  ASSIGN_OR_RETURN(const bool found, statement.bind(token_id).step());
  return found ? read_limits(statement) : TokenLimits{};
}

Result<void> Store::delete_token_limits(std::string_view token_id) {
  const auto work = [&]() -> Result<void> {
    database_.note(notice::kTokenLimits);
    return database_.execute("DELETE FROM token_limits WHERE token_id = $1", token_id);
  };
  return database_.transaction(work);
}

Result<std::vector<std::pair<std::string, TokenLimits>>> Store::list_token_limits() {
  static const std::string sql =
      base::cat("SELECT ", kColumns, ", token_id FROM token_limits ORDER BY token_id");
  ASSIGN_OR_RETURN(Statement statement, database_.prepare(sql));
  return read_rows<std::pair<std::string, TokenLimits>>(statement, read_named);
}

}  // namespace store
