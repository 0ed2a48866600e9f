// What the store keeps, as values. A time is in milliseconds since 1970 UTC, 0: not yet or never.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "model/sandbox.h"

namespace store {

using Labels = std::map<std::string, std::string>;

// Limits of one team; 0 where none is set (the host's, or unlimited).
struct Team {
  std::string name;
  std::vector<std::string> image_prefixes;  // of normalised references; empty: all
  bool builds = true;
  int64_t max_millicpus = 0;  // of one sandbox
  int64_t max_memory_mb = 0;
  int64_t max_storage_mb = 0;
  int64_t quota_millicpus = 0;  // of all its sandboxes
  int64_t quota_memory_mb = 0;
  int64_t quota_storage_mb = 0;
  int64_t quota_sandboxes = 0;
  int64_t default_storage_mb = 0;  // where a request names none
  int64_t lease_sec = 0;
  int64_t max_lifetime_sec = 0;
  int64_t queue_max_sec = 0;
  int64_t start_max_sec = 0;
  int64_t pids = 0;
  std::vector<std::string> isolation;
  std::string network;  // mode where a request names none
};

struct Token {
  std::string id;
  std::string name;
  std::string team;
  std::string subject;  // becomes the owner of what is made with it
  std::string role;     // member | admin
  std::vector<std::string> scopes;
  std::string hash;  // SHA-256 of the secret, lower-case hex
  int64_t created_ms = 0;
  int64_t expires_ms = 0;
  int64_t last_used_ms = 0;
};

struct Sandbox {
  std::string id;
  std::string team;
  std::string owner;
  model::SandboxState state = model::SandboxState::queued;
  std::string reason;
  std::string message;
  // What was asked for.
  std::string image;  // normalised
  model::Resources resources;
  Labels labels;
  std::string environment_sealed;  // ciphertext made by the caller; any bytes
  std::optional<std::string> user;
  std::optional<std::string> workdir;
  std::string isolation = "container";
  model::NetworkMode network = model::NetworkMode::open;
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
};

struct Event {
  int64_t id = 0;  // 1, 2, ... within its sandbox; given by the store
  int64_t at_ms = 0;
  std::string type;
  std::string reason;
  std::string message;
  std::string container;  // empty: of the whole sandbox
};

struct Registry {
  std::string host;
  std::string username;
  std::string secret_sealed;  // ciphertext made by the caller; any bytes
  std::string mirror;
  bool plain_http = false;
};

}  // namespace store
