// Store: what must outlive the process, in one SQLite file or a PostgreSQL database that several
// gateways share. All methods are synchronous and belong on a BlockingPool of one thread; there is
// no lock in here. Each method is one transaction: done whole or not at all, also when the process
// dies. The team comes first: a row of another team is not_found. Errors besides those named:
// disk_full, unavailable (busy too long, no connection), internal (broken file, bug).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "model/admission.h"
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
  // Filters look at the labels of these teams' rows only. Not set: of all that are listed.
  std::optional<std::vector<std::string>> labels_of;
  std::vector<model::SandboxState> states;                  // empty: any
  std::vector<std::pair<std::string, std::string>> labels;  // all of them
  std::optional<std::string> id;
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

// What one decision on admissions changed: rows of any team, as they are now.
struct Admission {
  std::vector<Sandbox> admitted;               // now starting, in this order
  std::vector<Sandbox> reclaimed;              // now failed; they hold their quota until released
  std::map<std::string, std::string> reasons;  // by id: why the first of a queue waits
};

struct AdmissionRules {
  model::Limits total;  // the operator's, of all teams together
  std::string replica;  // who decides, and starts what is admitted
};

struct Inserted {
  Sandbox sandbox;      // the new one, or the one this key made before (maybe deleted since)
  bool fresh = true;    // false: nothing was inserted
  Admission admission;  // what it did to others
};

// Who may use what, who uses what, and how many wait.
struct Quotas {
  std::vector<model::TeamQuota> teams;  // by name
  model::Usage used;
  std::map<std::string, int64_t, std::less<>> queued;
  std::set<std::string> drained;
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
  // Who works at it from here on. One that is starting stays with who starts it, whatever becomes
  // of it: it removes it, too.
  std::optional<std::string> replica;
  // Not before its lease is over at that time.
  std::optional<int64_t> lease_over_ms;
  std::vector<Event> events;  // appended with it
};

struct Changed {
  Sandbox sandbox;       // as it is now
  bool applied = false;  // false: it was not in a state that was asked for; nothing was changed
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
  std::optional<model::NetworkPolicy> network;
  std::vector<Event> events;
};

struct TeamChanges {
  std::vector<Team> puts;  // as put_team
  std::vector<std::string> removals;
  // Set: those of them that there were when the changes were made up; else conflict.
  std::optional<std::vector<Team>> were;
};

struct AuditFilter {
  std::optional<std::string> team;  // nullopt: rows of all teams
  std::string sandbox;              // empty: any; so are the others
  std::string event;
  std::string caller;
  std::string result;    // "ok", "error", or one of the API's codes
  std::string text;      // within event, caller, sandbox, remote or details, ignoring case
  int64_t from_ms = 0;   // this and later
  int64_t until_ms = 0;  // earlier than this; 0: no end
  int64_t limit = 100;
  std::string cursor;  // of the page before
  int64_t skip = 0;    // list_audit: so many of the newest are left out
};

// A piece of the audit log in the order of its chain.
struct AuditPiece {
  std::string lines;    // each with its newline (wire/audit_chain.h)
  int64_t through = 0;  // the last id that was looked at
};

// Which steps of time a question about activity has.
struct ActivityFilter {
  std::optional<std::string> team;  // nullopt: of all teams
  int64_t from_ms = 0;
  int64_t until_ms = 0;
  int64_t step_ms = 0;  // a number of minutes
};

class Store {
 public:
  // Of a URL as in store_url.h (a file is made where there is none); brings its schema up to date.
  // not_supported: a newer program used it; unavailable: nothing answers there.
  static Result<std::unique_ptr<Store>> open(const std::string& url);

  // Whether the database answers now: a server that was lost is not waited for; for /readyz.
  Result<void> check();
  // Whether a call, and all behind it, waits for a lost server now. Any thread.
  [[nodiscard]] bool is_waiting() { return database_.connection().is_waiting(); }

  // What time it is by the database server's clock; nullopt: there is no server (a file), and the
  // process' wall clock is the store's.
  Result<std::optional<int64_t>> server_time_ms();

  // --- teams (the team `default` is always there)
  Result<Team> find_team(std::string_view name);
  Result<std::vector<Team>> list_teams();
  // Makes it or changes it to this, members included. A team that is made keeps its created_ms.
  Result<void> put_team(const Team& team);
  // All of it or nothing. The tokens of members who are none any more go with their membership; of
  // a removed team what it had archived goes too, but not its audit log. Gives the ids of the
  // tokens that are gone. in_use (details.team, .sandboxes, .tokens): a removed team has them.
  // conflict where `were` does not hold any more: was_changed_elsewhere().
  Result<std::vector<std::string>> change_teams(const TeamChanges& changes);
  static bool was_changed_elsewhere(const base::Error& error);

  // --- tokens
  Result<void> insert_token(const Token& token);  // conflict: that id or hash exists
  // Of all teams, expired ones too, the oldest first.
  Result<std::vector<Token>> list_tokens();
  Result<std::optional<Token>> find_token_by_hash(std::string_view hash);
  Result<void> touch_token(std::string_view id, int64_t used_ms);
  Result<void> delete_token(std::string_view team, std::string_view id);

  // --- sign-ins of people
  Result<void> insert_sign_in(const SignIn& row);  // those whose time is over go
  Result<std::vector<SignIn>> list_sign_ins();
  Result<std::optional<SignIn>> find_sign_in(std::string_view id);
  Result<void> touch_sign_in(std::string_view id, int64_t used_ms);
  Result<void> delete_sign_ins(const std::vector<std::string>& ids);

  // --- keys of tokens that sandboxes have
  // By generation, with those that have ended and are not forgotten yet.
  Result<std::vector<IdentityKey>> list_identity_keys();
  // New generations, and the end of one (0: of none). Those that ended before that time go.
  // conflict: another gateway has made one of these generations.
  Result<void> add_identity_keys(const std::vector<IdentityKey>& fresh, int64_t ended,
                                 int64_t now_ms, int64_t forget_before_ms);

  // --- limits of tokens
  // not_found: there is no such token.
  Result<void> put_token_limits(std::string_view token_id, const TokenLimits& limits);
  // Nothing of its own: all nullopt. not_found as above.
  Result<TokenLimits> find_token_limits(std::string_view token_id);
  Result<void> delete_token_limits(std::string_view token_id);  // or nothing
  Result<std::vector<std::pair<std::string, TokenLimits>>> list_token_limits();

  // --- sandboxes
  // With its first events, and a row of the audit log where one is given (and it is inserted).
  // With `rules` its admission is decided in the same transaction: it becomes starting or queued,
  // and the events say so. Errors: idempotency_conflict (the key belongs to another body),
  // draining (the team is drained).
  Result<Inserted> insert_sandbox(std::string_view team, const Sandbox& sandbox,
                                  const std::vector<Event>& events,
                                  const std::optional<Idempotency>& idempotency = std::nullopt,
                                  const std::optional<AuditRow>& audit = std::nullopt,
                                  const std::optional<AdmissionRules>& rules = std::nullopt);
  // Deleted ones only with `archived`.
  Result<Sandbox> find_sandbox(std::string_view team, std::string_view id, bool archived = false);
  // Of a deleted one too; for callers in several teams, who are not let near it before it is known
  // to be of one of them.
  Result<std::string> team_of_sandbox(std::string_view id);
  // Newest first; stable while others are inserted. invalid_field: a cursor this did not make.
  Result<Page<Sandbox>> list_sandboxes(const std::vector<std::string>& teams,
                                       const SandboxFilter& filter);
  Result<Page<Sandbox>> list_sandboxes_of_all_teams(const SandboxFilter& filter);
  // Every sandbox that is not deleted, of all teams: what a reconcile compares the engine with.
  Result<std::vector<Sandbox>> all_live_sandboxes();
  // Compare-and-set by state, together with its events. A deleted one holds no quota any more.
  Result<Changed> set_state(std::string_view team, std::string_view id, const StateChange& change);
  // not_ready (details.state) when it is being deleted.
  Result<Sandbox> patch_sandbox(std::string_view team, std::string_view id,
                                const SandboxPatch& patch);
  // Only of ready sandboxes, and only forwards; others are passed over.
  Result<void> renew_leases(const std::vector<LeaseRenewal>& renewals);
  // Moves every deadline of all live sandboxes: the clock was stepped by that much.
  Result<void> shift_deadlines(int64_t by_ms);
  // Live sandboxes of all teams whose lease (ready), maximum lifetime, queue time (queued) or start
  // time (starting) is over at `now_ms`; those already deleting are not told again.
  Result<std::vector<Sandbox>> due_sandboxes(int64_t now_ms);
  // Forgets archived sandboxes and their events, the oldest first, at most `limit`; how many.
  Result<int64_t> forget_deleted_before(int64_t deleted_ms, int64_t limit);

  // --- admission
  // After quota became free or quotas changed: admits what fits now, with events.
  Result<Admission> admit_queued(const AdmissionRules& rules, int64_t now_ms);
  // Of a failed one, once the engine has removed it; false: it held none.
  Result<bool> release_quota(std::string_view team, std::string_view id);
  Result<Quotas> quotas();
  // Whether that changed anything.
  Result<bool> set_drained(std::string_view team, bool drained, int64_t now_ms);
  Result<std::set<std::string>> drained_teams();

  // --- events: those of deleted sandboxes stay readable
  // The same again (a repeat after an unknown outcome) changes nothing and gives the first.
  Result<Event> append_event(std::string_view team, std::string_view id, const Event& event);
  // Oldest first, those with an id above `after`, at most `limit`.
  Result<std::vector<Event>> list_events(std::string_view team, std::string_view id, int64_t after,
                                         int64_t limit);

  // --- audit log
  // All of them or none, in that order, with their ids, hashes and counters of activity; the id of
  // the last one.
  Result<int64_t> append_audit(const std::vector<AuditRow>& rows);
  // Newest first. A page may hold fewer rows than the limit, or none, before the end of the list:
  // it looks at a bounded number of rows.
  Result<Page<AuditRow>> page_audit(const AuditFilter& filter);
  // The same of one sandbox. not_found: that team never had it.
  Result<Page<AuditRow>> page_audit(std::string_view team, std::string_view sandbox,
                                    AuditFilter filter);
  // Newest first, at most filter.limit after filter.skip; of the filter event and times only.
  Result<std::vector<AuditRow>> list_audit(std::string_view team, std::string_view sandbox,
                                           const AuditFilter& filter);
  // How many rows list_audit would give without limit and skip.
  Result<int64_t> count_audit(std::string_view team, std::string_view sandbox,
                              const AuditFilter& filter);
  Result<AuditRow> find_audit(std::string_view team, std::string_view sandbox, int64_t id);
  // The rows that fit the filter among those with ids from after + 1 on to `until` at most; looks
  // at a bounded number of them. Its end is reached when `through` is `until`.
  Result<AuditPiece> audit_lines(const AuditFilter& filter, int64_t after, int64_t until);
  Result<model::AuditHead> audit_head();
  // Forgets the oldest rows before that time, at most `limit`, and records that it did, in one
  // transaction; how many. Minutes of activity before it go, too.
  Result<int64_t> cut_audit(int64_t before_ms, int64_t now_ms, int64_t limit);
  // Which of these requests have a row above the id `after`.
  Result<std::vector<std::string>> requests_in_audit(int64_t after,
                                                     const std::vector<std::string>& request_ids);
  // By time and caller, at most `limit` points, and from how many sandboxes at most.
  Result<std::vector<ActivityPoint>> list_activity(const ActivityFilter& filter, int64_t limit);

  // --- image builds
  // The one of that digest that is under way in the team, else the new row. overloaded: the team
  // has `running_max` under way.
  Result<Build> insert_build(const Build& build, int64_t running_max);
  Result<Build> find_build(std::string_view team, std::string_view id);
  Result<std::string> team_of_build(std::string_view id);
  // The newest of that digest that succeeded or is under way. not_found.
  Result<Build> find_build_of_digest(std::string_view team, std::string_view digest);
  // Newest first. nullopt: of all teams.
  Result<Page<Build>> list_builds(const std::optional<std::vector<std::string>>& teams,
                                  std::string_view state, int64_t limit, std::string_view cursor);
  // All that are queued or running.
  Result<std::vector<Build>> builds_under_way();
  // Writes state, reason, message, step, steps and times, while it is under way; false: it is not.
  Result<bool> update_build(const Build& build);
  // For `who` until then, where nobody else has it at `now_ms`; whether that is so.
  Result<bool> claim_build(std::string_view id, std::string_view who, int64_t now_ms,
                           int64_t until_ms);
  // All that `who` has claimed and that are under way.
  Result<void> renew_build_claims(std::string_view who, int64_t until_ms);
  // When something was last built there; 0: never.
  Result<int64_t> builder_used_ms(std::string_view builder);
  Result<void> put_build_log(std::string_view id, std::string_view text);
  Result<std::string> find_build_log(std::string_view id);  // "" where there is none
  // Forgets ended ones and their logs, the oldest first, at most `limit`; how many.
  Result<int64_t> forget_builds_before(int64_t ended_ms, int64_t limit);

  // --- gateways on this store
  // Makes or changes its row, and tells the others.
  Result<void> put_replica(const Replica& replica);
  // It lives, and so many are connected; its row is made where it is gone. All that were heard of
  // since `stale_ms`; the others' rows go.
  Result<std::vector<Replica>> beat(const Replica& own, int64_t stale_ms);
  Result<void> remove_replica(std::string_view id);
  Result<std::vector<Replica>> list_replicas();  // the oldest first
  // What `from` was at work at is `to`'s from here on: of several that ask, one gets them.
  Result<std::vector<Sandbox>> take_over(std::string_view from, std::string_view to);
  // Of any team and in any state, those that are there.
  Result<std::vector<Sandbox>> find_sandboxes(std::span<const std::string> ids);
  // overloaded: `most` are there that are not over.
  Result<void> put_ticket(const Ticket& ticket, int64_t now_ms, int64_t most);
  Result<std::optional<Ticket>> take_ticket(std::string_view hash);  // it is gone then
  Result<std::optional<std::string>> find_fact(std::string_view name);
  Result<void> put_fact(std::string_view name, std::string_view value);  // or leaves what is there
  Result<void> forget_fact(std::string_view name);
  Result<void> set_fact(std::string_view name, std::string_view value);
  // Where it is `from`, and then with a row of the audit log; false: it is something else, or not
  // there.
  Result<bool> change_fact(std::string_view name, std::string_view from, std::string_view to,
                           const std::optional<AuditRow>& audit = std::nullopt);

  // --- what is sealed, of all teams
  // Values that do not begin with `start`, in the order of their keys, after that one, at most
  // `limit`. `start` has a number of bytes that is divided by three.
  Result<std::vector<SealedValue>> list_sealed(SealedKind kind, std::string_view start,
                                               std::string_view after, int64_t limit);
  struct Resealed {
    SealedValue before;
    std::string sealed;
  };
  // In one transaction, those of them that are still what they were; how many.
  Result<int64_t> reseal(SealedKind kind, const std::vector<Resealed>& values);
  // How many there are that begin with `start`; "": all.
  Result<int64_t> count_sealed(SealedKind kind, std::string_view start);

  // --- registries of a team
  Result<void> put_registry(std::string_view team, const Registry& registry);
  Result<Registry> find_registry(std::string_view team, std::string_view host);
  Result<std::vector<Registry>> list_registries(std::string_view team);
  Result<void> delete_registry(std::string_view team, std::string_view host);

  [[nodiscard]] Database& database() { return database_; }

 private:
  explicit Store(Database database) : database_(std::move(database)) {}
  Result<Page<Sandbox>> list(const std::optional<std::vector<std::string>>& teams,
                             const SandboxFilter& filter);
  Result<Event> append(std::string_view id, const Event& event);
  Result<std::optional<Event>> find_event(std::string_view id, const Event& event);
  // In a transaction of the caller's.
  Result<void> append(const AuditRow& row);
  Result<void> put(const Team& team);
  Result<int64_t> append_chained(std::span<const AuditRow> rows);
  Result<void> count_activity(std::span<const AuditRow> rows);
  Result<std::vector<std::string>> delete_tokens_of_former_members(std::string_view team);
  Result<void> remove_team(std::string_view name);
  Result<void> check_unchanged(const TeamChanges& changes);
  Result<int64_t> count(std::string_view sql, std::string_view team);
  Result<Sandbox> find(std::string_view team, std::string_view id);
  Result<void> put_labels(std::string_view id, const Labels& labels);
  Result<Inserted> repeat_or_refuse(std::string_view team,
                                    const std::optional<Idempotency>& idempotency);
  // What a create meets in its team.
  struct Gate {
    bool limited = false;
    bool drained = false;
    bool queue = false;  // others wait
    int64_t start_max_sec = 0;
    int64_t queue_max_sec = 0;
  };
  Result<Gate> gate_of(std::string_view team, const AdmissionRules& rules);
  Result<void> prepare_entry(const Gate& gate, Sandbox& sandbox);
  Result<Admission> finish_entry(const Gate& gate, const AdmissionRules& rules, Sandbox& sandbox);
  Result<Admission> decide(const AdmissionRules& rules, int64_t now_ms);
  Result<int64_t> take_turn();
  Result<Sandbox> admit(const std::string& id, const std::string& replica, int64_t now_ms);
  Result<Sandbox> preempt(const std::string& id, const std::string& by_team,
                          const std::string& replica, int64_t now_ms);
  Result<std::vector<model::TeamQuota>> read_quotas();
  Result<model::Usage> read_used();
  Result<model::Usage> read_ending();
  Result<std::vector<model::HeldSandbox>> read_held();
  struct Queue {
    std::vector<model::QueuedRequest> requests;
    std::map<std::string, std::string> told;  // by id: the reasons that their rows have
  };
  Result<Queue> read_queue(int64_t most);
  Result<void> tell_reasons(const Queue& queue, const model::AdmissionDecision& decision);
  Result<std::optional<Inserted>> find_idempotent(std::string_view team,
                                                  const Idempotency& idempotency);

  Database database_;
};

}  // namespace store
