// The store's keys of tokens that sandboxes have.
#include "store/change_feed.h"
#include "store/json_text.h"
#include "store/read_rows.h"
#include "store/store.h"

namespace store {
namespace {

constexpr std::string_view kColumns =
    "generation, id, public_key, private_sealed, created_ms, ended_ms";

Result<IdentityKey> read_key(const Statement& row) {
  ASSIGN_OR_RETURN(auto sealed, unseal_text(row.get_text(3)));
  return IdentityKey{.generation = row.get_int(0),
                     .id = std::string(row.get_text(1)),
                     .public_key = std::string(row.get_text(2)),
                     .private_sealed = std::move(sealed),
                     .created_ms = row.get_int(4),
                     .ended_ms = row.get_int(5)};
}

}  // namespace

Result<std::vector<IdentityKey>> Store::list_identity_keys() {
  static const std::string sql =
      base::cat("SELECT ", kColumns, " FROM identity_keys ORDER BY generation");
  ASSIGN_OR_RETURN(Statement statement, database_.prepare(sql));
  return read_rows<IdentityKey>(statement, read_key);
}

Result<void> Store::add_identity_keys(const std::vector<IdentityKey>& fresh, int64_t ended,
                                      int64_t now_ms, int64_t forget_before_ms) {
  static const std::string sql =
      base::cat("INSERT INTO identity_keys (", kColumns, ") VALUES ($1, $2, $3, $4, $5, $6)");
  const auto work = [&]() -> Result<void> {
    database_.note(notice::kIdentityKeys);
    for (const IdentityKey& key : fresh) {
      RETURN_IF_ERROR(database_.execute(sql, key.generation, key.id, key.public_key,
                                        seal_text(key.private_sealed), key.created_ms,
                                        key.ended_ms));
    }
    RETURN_IF_ERROR(database_.execute(
        "UPDATE identity_keys SET ended_ms = $1 WHERE generation = $2 AND ended_ms = 0", now_ms,
        ended));
    return database_.execute("DELETE FROM identity_keys WHERE ended_ms <> 0 AND ended_ms < $1",
                             forget_before_ms);
  };
  return base::with_context(database_.transaction(work), "add signing keys");
}

}  // namespace store
