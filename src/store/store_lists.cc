// Lists of the store: pages of sandboxes with filters, and events.
#include <algorithm>

#include "store/change_feed.h"
#include "store/json_text.h"
#include "store/query.h"
#include "store/sandbox_row.h"
#include "store/store.h"

namespace store {
namespace {

using base::ErrorCode;
using base::fail;

// One page holds at most this many, whoever asks (the API's own limit).
constexpr int64_t kPageMax = 1000;

// The place of a row in the order of the list: "CREATED_MS.ID".
struct Place {
  int64_t created_ms = 0;
  std::string id;
};

Result<Place> parse_cursor(const std::string& cursor) {
  const size_t dot = cursor.find('.');
  const auto time = base::parse_number<int64_t>(std::string_view(cursor).substr(0, dot));
  if (dot == std::string::npos || !time) {
    return base::fail_field("cursor", "the cursor is not one that a list has given");
  }
  return Place{.created_ms = *time, .id = cursor.substr(dot + 1)};
}

// The row is of one of them.
void add_teams(Query& query, const std::optional<std::vector<std::string>>& teams) {
  if (!teams) {
    return;
  }
  query.add(" AND team IN (''");  // no team's name
  for (const std::string& team : *teams) {
    query.add(", ");
    query.add_value(team);
  }
  query.add(")");
}

// `text` as it stands within a JSON text.
std::string json_inside(const std::string& text) {
  const std::string list = list_text({text});  // ["..."]
  return list.substr(2, list.size() - 4);
}

// The labels' own text holds whatever one of their values does, so most rows are done without a
// look at their labels one by one. Ids are in lower case.
void add_text_filter(Query& query, const SandboxFilter& filter) {
  const std::string pattern = contains_pattern(filter.text);
  query.add(" AND (id LIKE ");
  query.add_value(pattern);
  query.add(" ESCAPE '\\' OR lower(image) LIKE ");
  query.add_value(pattern);
  query.add(" ESCAPE '\\' OR lower(owner) LIKE ");
  query.add_value(pattern);
  query.add(" ESCAPE '\\' OR (lower(labels) LIKE ");
  query.add_value(contains_pattern(json_inside(filter.text)));
  query.add(" ESCAPE '\\'");
  add_teams(query, filter.labels_of);
  query.add(
      " AND EXISTS (SELECT 1 FROM sandbox_labels l WHERE l.sandbox_id = sandboxes.id "
      "AND lower(l.value) LIKE ");
  query.add_value(pattern);
  query.add(" ESCAPE '\\')))");
}

void add_filter(Query& query, const SandboxFilter& filter) {
  if (!filter.archived) {
    query.add(" AND state <> 'deleted'");
  }
  if (!filter.states.empty()) {
    std::string_view separator = " AND state IN (";
    for (const model::SandboxState state : filter.states) {
      query.add(separator);
      query.add_value(model::to_string(state));
      separator = ", ";
    }
    query.add(")");
  }
  if (!filter.labels.empty()) {
    add_teams(query, filter.labels_of);
  }
  for (const auto& [name, value] : filter.labels) {
    query.add(
        " AND EXISTS (SELECT 1 FROM sandbox_labels l WHERE l.sandbox_id = sandboxes.id "
        "AND l.name = ");
    query.add_value(name);
    query.add(" AND l.value = ");
    query.add_value(value);
    query.add(")");
  }
  if (filter.id) {
    query.add(" AND id = ");
    query.add_value(*filter.id);
  }
  if (filter.owner) {
    query.add(" AND owner = ");
    query.add_value(*filter.owner);
  }
  if (filter.image) {
    query.add(" AND image = ");
    query.add_value(*filter.image);
  }
  if (!filter.text.empty()) {
    add_text_filter(query, filter);
  }
}

Result<Event> read_event(const Statement& row) {
  return Event{.id = row.get_int(0),
               .at_ms = row.get_int(1),
               .type = std::string(row.get_text(2)),
               .reason = std::string(row.get_text(3)),
               .message = std::string(row.get_text(4)),
               .container = std::string(row.get_text(5))};
}

}  // namespace

std::string contains_pattern(std::string_view text) {
  std::string out = "%";
  for (const char letter : base::lower(text)) {
    if (letter == '%' || letter == '_' || letter == '\\') {
      out += '\\';
    }
    out += letter;
  }
  return out + "%";
}

Result<Page<Sandbox>> Store::list(const std::optional<std::vector<std::string>>& teams,
                                  const SandboxFilter& filter) {
  const int64_t limit = std::clamp<int64_t>(filter.limit, 1, kPageMax);
  Query query(base::cat("SELECT ", kSandboxColumns, " FROM sandboxes WHERE TRUE"));
  add_teams(query, teams);
  add_filter(query, filter);
  if (!filter.cursor.empty()) {
    ASSIGN_OR_RETURN(const Place place, parse_cursor(filter.cursor));
    query.add(" AND (created_ms, id) < (");
    query.add_value(place.created_ms);
    query.add(", ");
    query.add_value(place.id);
    query.add(")");
  }
  query.add(" ORDER BY created_ms DESC, id DESC LIMIT ");
  query.add_value(limit + 1);

  ASSIGN_OR_RETURN(Statement statement, database_.prepare(query.text()));
  query.bind_to(statement);
  Page<Sandbox> page;
  for (;;) {
    ASSIGN_OR_RETURN(const bool more, statement.step());
    if (!more) {
      return page;
    }
    if (static_cast<int64_t>(page.items.size()) == limit) {
      const Sandbox& last = page.items.back();
      page.next_cursor = base::cat(last.created_ms, ".", last.id);
      return page;
    }
    ASSIGN_OR_RETURN(Sandbox sandbox, read_sandbox(statement));
    page.items.push_back(std::move(sandbox));
  }
}

Result<Page<Sandbox>> Store::list_sandboxes(const std::vector<std::string>& teams,
                                            const SandboxFilter& filter) {
  return list(teams, filter);
}

Result<Page<Sandbox>> Store::list_sandboxes_of_all_teams(const SandboxFilter& filter) {
  return list(std::nullopt, filter);
}

Result<Event> Store::append(std::string_view id, const Event& event) {
  database_.note(notice::kSandbox, id);
  ASSIGN_OR_RETURN(
      Statement statement,
      database_.prepare(
          "INSERT INTO events (sandbox_id, id, at_ms, type, reason, message, container) VALUES "
          "($1, (SELECT COALESCE(MAX(id), 0) + 1 FROM events WHERE sandbox_id = $1), "
          "$2, $3, $4, $5, $6) RETURNING id"));
  statement.bind(id, event.at_ms, event.type, event.reason, event.message, event.container);
  ASSIGN_OR_RETURN(const bool inserted, statement.step());
  if (!inserted) {
    return fail(ErrorCode::internal, "database: an event got no id");
  }
  Event out = event;
  out.id = statement.get_int(0);
  RETURN_IF_ERROR(statement.run());
  return out;
}

// One with the same time, kind and words is the same one: it is written again where the answer to
// its commit was lost.
Result<std::optional<Event>> Store::find_event(std::string_view id, const Event& event) {
  ASSIGN_OR_RETURN(
      Statement statement,
      database_.prepare("SELECT id, at_ms, type, reason, message, container FROM events WHERE "
                        "sandbox_id = $1 AND at_ms = $2 AND type = $3 AND reason = $4 AND "
                        "message = $5 AND container = $6 LIMIT 1"));
  ASSIGN_OR_RETURN(
      const bool found,
      statement.bind(id, event.at_ms, event.type, event.reason, event.message, event.container)
          .step());
  if (!found) {
    return std::nullopt;
  }
  ASSIGN_OR_RETURN(Event present, read_event(statement));
  RETURN_IF_ERROR(statement.run());
  return present;
}

Result<Event> Store::append_event(std::string_view team, std::string_view id, const Event& event) {
  const auto work = [&]() -> Result<Event> {
    RETURN_IF_ERROR(find(team, id));
    ASSIGN_OR_RETURN(auto present, find_event(id, event));
    return present ? Result<Event>(std::move(*present)) : append(id, event);
  };
  return database_.transaction(work);
}

Result<std::vector<Event>> Store::list_events(std::string_view team, std::string_view id,
                                              int64_t after, int64_t limit) {
  RETURN_IF_ERROR(find(team, id));
  ASSIGN_OR_RETURN(
      Statement statement,
      database_.prepare("SELECT id, at_ms, type, reason, message, container FROM events "
                        "WHERE sandbox_id = $1 AND id > $2 ORDER BY id LIMIT $3"));
  statement.bind(id, after, std::clamp<int64_t>(limit, 1, kPageMax));
  std::vector<Event> out;
  for (;;) {
    ASSIGN_OR_RETURN(const bool more, statement.step());
    if (!more) {
      return out;
    }
    ASSIGN_OR_RETURN(Event event, read_event(statement));
    out.push_back(std::move(event));
  }
}

}  // namespace store
