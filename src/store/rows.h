// What the store keeps, as values. A time is in milliseconds since 1970 UTC, 0: not yet or never.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "model/audit_row.h"
#include "model/role.h"
#include "model/sandbox.h"

namespace store {

using Labels = std::map<std::string, std::string>;

// One who belongs to a team: a token's subject, or who has signed in.
struct Member {
  std::string subject;
  model::Role role = model::Role::member;
  bool operator==(const Member&) const = default;
};

// One team and its limits, with what a new one has. Of a maximum 0: none is set (the host's).
struct Team {
  std::string name;
  std::vector<std::string> image_prefixes;  // of normalised references; empty: all
  bool builds = true;
  int64_t max_millicpus = 0;  // of one sandbox
  int64_t max_memory_mb = 0;
  int64_t max_storage_mb = 0;
  // Of all its sandboxes. Not set: no limit; 0: it owns nothing, and has what it borrows.
  std::optional<int64_t> quota_millicpus;
  std::optional<int64_t> quota_memory_mb;
  std::optional<int64_t> quota_storage_mb;
  std::optional<int64_t> quota_sandboxes;
  int64_t default_storage_mb = 1'024;  // where a request names none
  int64_t lease_sec = 1'800;
  int64_t max_lifetime_sec = 86'400;
  int64_t queue_max_sec = 86'400;
  int64_t start_max_sec = 1'800;
  int64_t pids = 1'024;
  std::vector<std::string> isolation{"container"};
  std::string network = "open";  // model::to_text of the policy where a request names none
  // How far beyond its quota with what others leave idle, and how much of its own idle quota others
  // may take. Not set: no limit; 0: nothing.
  std::optional<int64_t> borrow_millicpus;
  std::optional<int64_t> borrow_memory_mb;
  std::optional<int64_t> borrow_storage_mb;
  std::optional<int64_t> borrow_sandboxes;
  std::optional<int64_t> lend_millicpus;
  std::optional<int64_t> lend_memory_mb;
  std::optional<int64_t> lend_storage_mb;
  std::optional<int64_t> lend_sandboxes;
  bool reclaim = false;  // takes back what it lent by ending sandboxes of those who borrowed
  // What its sandboxes may do with tokens of their own: to which sandboxes (own, team, none), and
  // with which scopes.
  std::string identity_sandboxes = "own";
  std::vector<std::string> identity_scopes{"member", "read"};
  int64_t created_ms = 0;
  std::vector<Member> members;  // by subject
  bool operator==(const Team&) const = default;
};

struct Token {
  std::string id;
  std::string name;
  std::string team;
  std::string subject;  // becomes the owner of what is made with it
  model::Role role = model::Role::member;
  std::vector<std::string> scopes;
  std::string hash;  // SHA-256 of the secret, lower-case hex
  int64_t created_ms = 0;
  int64_t expires_ms = 0;
  int64_t last_used_ms = 0;
  bool of_member = false;   // speaks for a member of its team, as long as it is one
  bool every_team = false;  // also in the other teams that have its subject as a member
  bool operator==(const Token&) const = default;
};

// One container of several, as it is shown.
struct Container {
  std::string name;
  std::string image;
  bool operator==(const Container&) const = default;
};

struct Sandbox {
  std::string id;
  std::string team;
  std::string owner;
  model::SandboxState state = model::SandboxState::queued;
  std::string reason;
  std::string message;  // of a queued one: why it waits, as the last decision saw it
  // What was asked for.
  std::string image;  // normalised
  model::Resources resources;
  Labels labels;
  // Of a compose file; main first. Empty: one container, of `image`.
  std::vector<Container> containers;
  // Ciphertext made by the caller, any bytes: the environment, of several containers all of them.
  std::string environment_sealed;
  // Its ed25519 key pair; the private half as ciphertext. Empty: it is older than keys are.
  std::string public_key;
  std::string key_sealed;
  std::optional<std::string> user;
  std::optional<std::string> workdir;
  std::string isolation = "container";
  model::NetworkPolicy network;
  bool no_new_privileges = false;
  bool run_entrypoint = false;
  bool always_pull = false;
  int64_t lease_sec = 0;
  int64_t max_lifetime_sec = 0;
  // What became of it.
  std::string image_digest;
  std::string node;
  int64_t created_ms = 0;
  int64_t admitted_ms = 0;
  int64_t ready_ms = 0;
  int64_t deleted_ms = 0;
  int64_t last_activity_ms = 0;
  int64_t queue_deadline_ms = 0;  // of a queued one
  int64_t start_deadline_ms = 0;  // of a starting one
  int64_t lease_expires_ms = 0;   // of a ready one
  int64_t max_lifetime_ms = 0;    // from the admission on, in any state
  int64_t queued_ms = 0;          // how long it took
  int64_t pull_ms = 0;
  int64_t start_ms = 0;
  bool holds_quota = false;  // from its admission until the engine has removed it
  int64_t ticket = 0;        // the place in the queue it had: counts up over all teams
  // The gateway that starts or removes it: where it is starting, deleting, or failed and holds
  // quota.
  std::string replica;
};

struct Event {
  int64_t id = 0;  // 1, 2, ... within its sandbox; given by the store
  int64_t at_ms = 0;
  std::string type;
  std::string reason;
  std::string message;
  std::string container;  // empty: of the whole sandbox
};

// Who did what. Rows outlive their sandbox.
using AuditRow = model::AuditRow;

// What one caller did in one step of time.
struct ActivityPoint {
  std::string team;
  std::string subject;
  int64_t at_ms = 0;  // the step's beginning
  int64_t actions = 0;
  int64_t failures = 0;
  int64_t commands = 0;
  int64_t command_ms = 0;
  int64_t creates = 0;
  int64_t bytes_in = 0;
  int64_t bytes_out = 0;
  int64_t sandbox_ms = 0;  // how long its sandboxes were there, together
};

// A gateway that shares the store, as it told of itself.
struct Replica {
  std::string id;
  std::string address;  // where it listens
  std::string version;
  int64_t started_ms = 0;
  int64_t heartbeat_ms = 0;  // when it was last heard of
  bool draining = false;
  int64_t connections = 0;  // of clients
  bool operator==(const Replica&) const = default;
};

// What stands for a token once; `caller` is made by who puts it.
struct Ticket {
  std::string hash;  // of its secret
  std::string caller;
  int64_t expires_ms = 0;
};

// A person's session: of a browser or of a program.
struct SignIn {
  std::string id;
  std::string kind;  // "browser", "program"
  std::string subject;
  std::string remote;  // the address it was begun from
  int64_t created_ms = 0;
  int64_t expires_ms = 0;
  int64_t last_used_ms = 0;
  bool operator==(const SignIn&) const = default;
};

// A key that tokens of sandboxes are signed with.
struct IdentityKey {
  int64_t generation = 0;  // 1, 2, ...
  std::string id;
  std::string public_key;      // a member of a JWK set
  std::string private_sealed;  // ciphertext made by the caller, any bytes
  int64_t created_ms = 0;
  int64_t ended_ms = 0;  // since when it signs no more
  bool operator==(const IdentityKey&) const = default;
};

// Limits of one token that are its own; nullopt: the operator's, 0: none.
struct TokenLimits {
  std::optional<int64_t> requests_per_sec;
  std::optional<int64_t> burst;
  std::optional<int64_t> concurrent_creates;
  std::optional<int64_t> concurrent_streams;
  std::optional<int64_t> body_mb;
  bool operator==(const TokenLimits&) const = default;
};

// One image build. States: queued (its context is with the builder), running, and the ends
// succeeded, failed, cancelled.
struct Build {
  std::string id;
  std::string team;
  std::string owner;
  std::string digest;  // 64 hexadecimal digits
  std::string state = "queued";
  std::string reason;  // of failed
  std::string message;
  std::string step;  // what is under way
  int64_t steps_done = 0;
  int64_t steps = 0;    // known so far
  std::string builder;  // the engine's id of where it runs
  int64_t created_ms = 0;
  int64_t started_ms = 0;
  int64_t ended_ms = 0;
  std::string claimed_by;  // the gateway that drives it
  int64_t claimed_until_ms = 0;
};

// What the store keeps as ciphertext, by what seals it.
enum class SealedKind { ssh_host_key, identity_key, registry, environment, sandbox_key };

struct SealedValue {
  std::string key;  // of its row: an id, "TEAM HOST", the name of a fact
  std::string sealed;
};

struct Registry {
  std::string host;
  std::string username;
  std::string secret_sealed;  // ciphertext made by the caller; any bytes
  std::string mirror;
  bool plain_http = false;
};

}  // namespace store
