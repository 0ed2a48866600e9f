// What the store keeps sealed, wherever it is: for a change of the key that seals.
#include "store/change_feed.h"
#include "store/json_text.h"
#include "store/read_rows.h"
#include "store/store.h"

namespace store {
namespace {

// Where values of one kind are. `key` is an expression that names a row.
struct Place {
  std::string_view table;
  std::string_view key;
  std::string_view column;
  std::string_view notice;  // for who keeps such rows in memory; "": nobody does
};

Place place_of(SealedKind kind) {
  switch (kind) {
    case SealedKind::ssh_host_key:
      return {"(SELECT name, value FROM store_facts WHERE name = 'ssh_host_key') AS one", "name",
              "value", ""};
    case SealedKind::identity_key:
      return {"identity_keys", "id", "private_sealed", notice::kIdentityKeys};
    case SealedKind::registry:
      return {"registries", "team || ' ' || host", "secret_sealed", notice::kRegistries};
    case SealedKind::environment:
      return {"sandboxes", "id", "environment_sealed", notice::kSandbox};
    case SealedKind::sandbox_key:
      return {"sandboxes", "id", "key_sealed", notice::kSandbox};
  }
  return {};
}

// The texts are base64: so many letters are the first bytes, whatever comes behind them.
std::string start_text(std::string_view start) { return seal_text(start); }

Result<SealedValue> read_value(const Statement& row) {
  ASSIGN_OR_RETURN(auto sealed, unseal_text(row.get_text(1)));
  return SealedValue{.key = std::string(row.get_text(0)), .sealed = std::move(sealed)};
}

}  // namespace

Result<std::vector<SealedValue>> Store::list_sealed(SealedKind kind, std::string_view start,
                                                    std::string_view after, int64_t limit) {
  const Place place = place_of(kind);
  const std::string letters = start_text(start);
  const std::string sql =
      base::cat("SELECT ", place.key, ", ", place.column, " FROM ", place.table, " WHERE ",
                place.column, " <> '' AND substr(", place.column, ", 1, ", letters.size(),
                ") <> $1 AND ", place.key, " > $2 ORDER BY ", place.key, " LIMIT $3");
  ASSIGN_OR_RETURN(Statement statement, database_.prepare(sql));
  return read_rows<SealedValue>(statement.bind(letters, after, limit), read_value);
}

Result<int64_t> Store::reseal(SealedKind kind, const std::vector<Resealed>& values) {
  const Place place = place_of(kind);
  const std::string_view table = kind == SealedKind::ssh_host_key ? "store_facts" : place.table;
  const std::string sql = base::cat("UPDATE ", table, " SET ", place.column, " = $1 WHERE ",
                                    place.key, " = $2 AND ", place.column, " = $3");
  const auto work = [&]() -> Result<int64_t> {
    int64_t changed = 0;
    for (const Resealed& value : values) {
      RETURN_IF_ERROR(database_.execute(sql, seal_text(value.sealed), value.before.key,
                                        seal_text(value.before.sealed)));
      changed += database_.changes();
      if (place.notice == notice::kSandbox) {
        database_.note(place.notice, value.before.key);
      }
    }
    if (!place.notice.empty() && place.notice != notice::kSandbox) {
      database_.note(place.notice);
    }
    return changed;
  };
  return base::with_context(database_.transaction(work), "seal anew");
}

Result<int64_t> Store::count_sealed(SealedKind kind, std::string_view start) {
  const Place place = place_of(kind);
  const std::string letters = start_text(start);
  ASSIGN_OR_RETURN(Statement statement,
                   database_.prepare(base::cat("SELECT COUNT(*) FROM ", place.table, " WHERE ",
                                               place.column, " <> '' AND substr(", place.column,
                                               ", 1, ", letters.size(), ") = $1")));
  ASSIGN_OR_RETURN(const bool counted, statement.bind(letters).step());
  return counted ? statement.get_int(0) : 0;
}

}  // namespace store
