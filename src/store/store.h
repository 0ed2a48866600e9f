// Store: what must outlive the process, in one SQLite file (design: the same SQL for PostgreSQL
// later). All methods are synchronous and belong on a BlockingPool of one thread; there is no lock
// in here. Each method is one transaction: done whole or not at all, also when the process dies.
// The team comes first: a row of another team is not_found.
// Errors besides those named: disk_full, unavailable (busy too long), internal (broken file, bug).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "store/database.h"
#include "store/rows.h"

namespace store {

using base::Result;

// One page of a list; next_cursor is empty at the end.
template <typename T>
struct Page {
  std::vector<T> items;
  std::string next_cursor;
};

struct SandboxFilter {
  std::vector<model::SandboxState> states;                  // empty: any
  std::vector<std::pair<std::string, std::string>> labels;  // all of them
  std::optional<std::string> owner;
  std::optional<std::string> image;  // normalised
  std::string text;                  // within id, image, owner or a label's value, ignoring case
  bool archived = false;             // also those of state deleted
  int64_t limit = 100;
  std::string cursor;  // of the page before
};

// Makes an insert repeatable: the same key within `window_ms` stands for the sandbox it made.
struct Idempotency {
  std::string key;
  std::string request_digest;  // of the body: another one is a conflict
  int64_t window_ms = 0;
};

struct Inserted {
  Sandbox sandbox;    // the new one, or the one this key made before (maybe deleted since)
  bool fresh = true;  // false: nothing was inserted
};

// A step of a sandbox's life. What is not set stays.
struct StateChange {
  std::vector<model::SandboxState> from;  // it must be in one of these
  std::optional<model::SandboxState> to;  // not set: it stays in its state
  std::optional<std::string> reason;
  std::optional<std::string> message;
  std::optional<std::string> image_digest;
  std::optional<std::string> node;
  std::optional<int64_t> admitted_ms;
  std::optional<int64_t> ready_ms;
  std::optional<int64_t> deleted_ms;
  std::optional<int64_t> last_activity_ms;
  std::optional<int64_t> start_deadline_ms;
  std::optional<int64_t> lease_expires_ms;
  std::optional<int64_t> max_lifetime_ms;
  std::optional<int64_t> queued_ms;
  std::optional<int64_t> pull_ms;
  std::optional<int64_t> start_ms;
  std::vector<Event> events;  // appended with it
};

struct Changed {
  Sandbox sandbox;       // as it is now
  bool applied = false;  // false: it was in none of the states asked for; nothing was changed
};

struct LeaseRenewal {
  std::string team;
  std::string id;
  int64_t last_activity_ms = 0;
  int64_t lease_expires_ms = 0;
};

struct SandboxPatch {
  std::optional<Labels> labels;  // all of them anew
  std::optional<int64_t> lease_sec;
  std::optional<int64_t> lease_expires_ms;
  std::optional<model::NetworkMode> network;
  std::vector<Event> events;
};

class Store {
 public:
  // Opens or makes the file and brings its schema up to date. A file of a newer program is refused
  // (unavailable, and says so).
  static Result<std::unique_ptr<Store>> open(const std::string& path);

  // Whether the database answers; for /readyz.
  Result<void> check();

  // --- teams (the team `default` is always there)
  Result<Team> find_team(std::string_view name);
  Result<std::vector<Team>> list_teams();

  // --- tokens
  Result<void> insert_token(const Token& token);  // conflict: that id or hash exists
  // Of any team: the token says which. An expired one is found too.
  Result<Token> find_token_by_hash(std::string_view hash);
  Result<std::vector<Token>> list_tokens(std::string_view team);
  Result<void> touch_token(std::string_view id, int64_t used_ms);
  Result<void> delete_token(std::string_view team, std::string_view id);

  // --- sandboxes
  // With its first events. Errors: idempotency_conflict (the key belongs to another body).
  Result<Inserted> insert_sandbox(std::string_view team, const Sandbox& sandbox,
                                  const std::vector<Event>& events,
                                  const std::optional<Idempotency>& idempotency = std::nullopt);
  // Deleted ones only with `archived`.
  Result<Sandbox> find_sandbox(std::string_view team, std::string_view id, bool archived = false);
  // Newest first; stable while others are inserted. invalid_field: a cursor this did not make.
  Result<Page<Sandbox>> list_sandboxes(std::string_view team, const SandboxFilter& filter);
  Result<Page<Sandbox>> list_sandboxes_of_all_teams(const SandboxFilter& filter);
  // Every sandbox that is not deleted, of all teams: what a reconcile compares the engine with.
  Result<std::vector<Sandbox>> all_live_sandboxes();
  // Compare-and-set by state, together with its events.
  Result<Changed> set_state(std::string_view team, std::string_view id, const StateChange& change);
  // not_ready (details.state) when it is being deleted.
  Result<Sandbox> patch_sandbox(std::string_view team, std::string_view id,
                                const SandboxPatch& patch);
  // Only of ready sandboxes, and only forwards; others are passed over.
  Result<void> renew_leases(const std::vector<LeaseRenewal>& renewals);
  // Live sandboxes of all teams whose lease (ready), maximum lifetime, queue time (queued) or start
  // time (starting) is over at `now_ms`; those already deleting are not told again.
  Result<std::vector<Sandbox>> due_sandboxes(int64_t now_ms);
  // Forgets archived sandboxes and their events; how many.
  Result<int64_t> forget_deleted_before(int64_t deleted_ms);

  // --- events: those of deleted sandboxes stay readable
  Result<Event> append_event(std::string_view team, std::string_view id, const Event& event);
  // Oldest first, those with an id above `after`, at most `limit`.
  Result<std::vector<Event>> list_events(std::string_view team, std::string_view id, int64_t after,
                                         int64_t limit);

  // --- registries of a team
  Result<void> put_registry(std::string_view team, const Registry& registry);
  Result<Registry> find_registry(std::string_view team, std::string_view host);
  Result<std::vector<Registry>> list_registries(std::string_view team);
  Result<void> delete_registry(std::string_view team, std::string_view host);

  [[nodiscard]] Database& database() { return database_; }

 private:
  explicit Store(Database database) : database_(std::move(database)) {}
  Result<Page<Sandbox>> list(std::optional<std::string_view> team, const SandboxFilter& filter);
  Result<Event> append(std::string_view id, const Event& event);
  Result<Sandbox> find(std::string_view team, std::string_view id);
  Result<void> put_labels(std::string_view id, const Labels& labels);
  Result<std::optional<Inserted>> find_idempotent(std::string_view team,
                                                  const Idempotency& idempotency);

  Database database_;
};

}  // namespace store
