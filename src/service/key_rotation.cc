#include "service/key_rotation.h"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <thread>

#include "base/fault.h"
#include "base/sys.h"
#include "service/host_action.h"
#include "service/key_watch.h"
#include "service/sealing.h"

namespace service {
namespace {

using base::ErrorCode;
using base::Result;
using store::SealedKind;

constexpr std::array kKinds{SealedKind::ssh_host_key, SealedKind::identity_key,
                            SealedKind::registry, SealedKind::environment, SealedKind::sandbox_key};
constexpr int64_t kBatch = 100;
// A gateway that was silent for longer is gone (Replicas::kSilence, and room).
constexpr int64_t kAliveMs = 10'000;
constexpr std::chrono::milliseconds kLook{100};
// In which a gateway finds a new key in its file: a few of its looks.
constexpr base::Milliseconds kArrival = 5 * KeyWatch::kLook;
// What was sealed a moment before a gateway changed keys can arrive a moment behind it.
constexpr int kPassesMax = 10;

struct Keys {
  FoundKeys found;
  KeyRing all;
  MasterKey current;
};

Result<Keys> open_keys(const KeyWork& work) {
  Keys keys;
  ASSIGN_OR_RETURN(keys.found, find_keys(work.sources));
  keys.all = keys.found.all();
  ASSIGN_OR_RETURN(const auto fact, work.store.find_fact(kKeyFact));
  if (!fact) {
    return base::fail(ErrorCode::not_ready,
                      "the store has no key yet: a gateway's first start makes one");
  }
  ASSIGN_OR_RETURN(keys.current, key_of_store(keys.all, *fact, work.sources));
  return keys;
}

// One at a time of those that change this key file.
Result<base::Fd> lock(const KeyWork& work) {
  ASSIGN_OR_RETURN(base::Fd folder, base::sys::open(work.data_folder, O_RDONLY | O_DIRECTORY));
  if (::flock(folder.get(), LOCK_EX | LOCK_NB) != 0) {
    return base::fail(ErrorCode::in_use, "another 'sandbox-gateway keys' is at work on ",
                      work.data_folder);
  }
  return folder;
}

// By their ids, what each that lives has told of its keys.
Result<std::map<std::string, std::string>> living_gateways(const KeyWork& work) {
  std::vector<std::string> ids;
  if (work.shared) {
    ASSIGN_OR_RETURN(const auto now, work.store.server_time_ms());
    ASSIGN_OR_RETURN(const auto rows, work.store.list_replicas());
    for (const store::Replica& row : rows) {
      if (row.heartbeat_ms > now.value_or(0) - kAliveMs) {
        ids.push_back(row.id);
      }
    }
  } else {
    // Not made here: it is the gateway's user's.
    const auto held = base::sys::open(base::cat(work.data_folder, "/gateway.lock"), O_RDWR);
    if (held && ::flock(held->get(), LOCK_EX | LOCK_NB) != 0) {
      ASSIGN_OR_RETURN(auto id, read_replica_id(work.data_folder, work.random));
      ids.push_back(std::move(id));
    }
  }
  std::map<std::string, std::string> out;
  for (const std::string& id : ids) {
    ASSIGN_OR_RETURN(auto told, work.store.find_fact(keys_told_fact(id)));
    out.emplace(id, std::move(told).value_or(""));
  }
  return out;
}

bool has_key(const std::string& told, const std::string& id) {
  return told.find(id) != std::string::npos;
}
bool seals_by(const std::string& told, const std::string& id) { return told.starts_with(id); }

// Those that do not have or do by the end of the patience.
Result<std::string> wait_for_gateways(const KeyWork& work, const std::string& id,
                                      bool (*is_right)(const std::string&, const std::string&),
                                      base::Milliseconds patience) {
  const auto end = std::chrono::steady_clock::now() + patience;
  for (;;) {
    ASSIGN_OR_RETURN(const auto living, living_gateways(work));
    std::string lacking;
    for (const auto& [gateway, told] : living) {
      if (!is_right(told, id)) {
        lacking += base::cat(lacking.empty() ? "" : " ", gateway);
      }
    }
    if (lacking.empty() || std::chrono::steady_clock::now() >= end) {
      return lacking;
    }
    std::this_thread::sleep_for(kLook);
  }
}

std::unexpected<base::Error> not_following(const std::string& gateways, std::string_view what) {
  auto error = base::fail(ErrorCode::not_ready, what);
  error.error().details.emplace_back("gateways", gateways);
  return error;
}

struct Pass {
  int64_t resealed = 0;
  int64_t lost = 0;  // no key opens them
};

Result<void> reseal_kind(const KeyWork& work, const SecretBox& box, SealedKind kind, Pass& pass) {
  std::string after;
  for (;;) {
    ASSIGN_OR_RETURN(const auto values,
                     work.store.list_sealed(kind, box.current().raw_id, after, kBatch));
    if (values.empty()) {
      return {};
    }
    after = values.back().key;
    std::vector<store::Store::Resealed> fresh;
    for (const store::SealedValue& value : values) {
      const std::string purpose = seal_purpose(kind, value.key);
      const auto plain = box.unseal(value.sealed, purpose);
      if (plain) {
        fresh.push_back({.before = value, .sealed = box.seal(plain->reveal(), purpose)});
      } else {
        ++pass.lost;
      }
    }
    ASSIGN_OR_RETURN(const int64_t changed, work.store.reseal(kind, fresh));
    pass.resealed += changed;
    base::fault_point("gateway.keys.batch");
  }
}

Result<Pass> reseal_all(const KeyWork& work, const SecretBox& box) {
  Pass all;
  for (int i = 0; i < kPassesMax; ++i) {
    Pass pass;
    for (const SealedKind kind : kKinds) {
      RETURN_IF_ERROR(reseal_kind(work, box, kind, pass));
    }
    all.resealed += pass.resealed;
    all.lost = pass.lost;
    if (pass.resealed == 0) {
      break;
    }
  }
  return all;
}

std::string told_of(const Pass& pass) {
  std::string out = base::cat(pass.resealed, " values sealed anew");
  if (pass.lost > 0) {
    out += base::cat(", ", pass.lost, " that no key opens");
  }
  return out;
}

// A key that is newer than the store's; makes one where there is none.
Result<MasterKey> next_key(const KeyWork& work, const Keys& keys, bool is_finished) {
  const MasterKey& newest = keys.all.back();
  if (newest.id != keys.current.id || !is_finished) {
    return newest;
  }
  if (!work.sources.command.empty()) {
    return base::fail(ErrorCode::not_ready,
                      "master-key-command prints no key that is newer than the store's (",
                      keys.current.id,
                      "): let it print a new one behind that, and start the "
                      "gateways anew");
  }
  KeyRing staged = keys.found.of_file;
  staged.push_back(new_master_key(work.random));
  if (staged.size() > kMasterKeysMax) {
    return base::fail(ErrorCode::not_ready, "there are ", kMasterKeysMax,
                      " keys already: 'sandbox-gateway keys retire' first");
  }
  RETURN_IF_ERROR(write_key_file(work.sources.file, staged));
  base::fault_point("gateway.keys.staged");
  return staged.back();
}

// Values that no key opens are not what a rotation waits for.
Result<bool> is_finished(const KeyWork& work, const Keys& keys) {
  const SecretBox box(keys.all, keys.current.id, work.random);
  for (const SealedKind kind : kKinds) {
    std::string after;
    for (;;) {
      ASSIGN_OR_RETURN(const auto values,
                       work.store.list_sealed(kind, keys.current.raw_id, after, kBatch));
      if (values.empty()) {
        break;
      }
      after = values.back().key;
      for (const store::SealedValue& value : values) {
        if (box.unseal(value.sealed, seal_purpose(kind, value.key))) {
          return false;
        }
      }
    }
  }
  return true;
}

// From here on the new key seals, and the audit log has it.
Result<void> change_key(const KeyWork& work, const MasterKey& from, const MasterKey& to,
                        HostAction& action) {
  if (to.id == from.id) {
    action.details()["continued"] = true;
    return action.record();
  }
  action.details()["former"] = from.id;
  ASSIGN_OR_RETURN(const bool changed, work.store.change_fact(kKeyFact, from.fingerprint,
                                                              to.fingerprint, action.row()));
  if (!changed) {
    return base::fail(ErrorCode::conflict, "the store's key was changed by somebody else");
  }
  base::fault_point("gateway.keys.changed");
  return {};
}

Result<std::string> rotate(const KeyWork& work, HostAction& action) {
  ASSIGN_OR_RETURN(const Keys keys, open_keys(work));
  ASSIGN_OR_RETURN(const bool finished, is_finished(work, keys));
  ASSIGN_OR_RETURN(const MasterKey next, next_key(work, keys, finished));
  action.details()["key"] = next.id;
  // A command's keys come to a gateway by its start only.
  const bool can_arrive = find_key(keys.found.of_command, next.id) == nullptr;
  const auto patience = can_arrive ? std::min(work.patience, kArrival) : base::Milliseconds(0);
  ASSIGN_OR_RETURN(const auto lacking, wait_for_gateways(work, next.id, has_key, patience));
  if (!lacking.empty()) {
    return not_following(
        lacking, base::cat("the new key ", next.id, " is not with all gateways: give ",
                           work.sources.file, " to these too and do the same again: ", lacking));
  }
  RETURN_IF_ERROR(change_key(work, keys.current, next, action));
  ASSIGN_OR_RETURN(const auto slow, wait_for_gateways(work, next.id, seals_by, work.patience));
  if (!slow.empty()) {
    return not_following(slow, base::cat("these gateways do not use the new key ", next.id,
                                         " yet; do the same again: ", slow));
  }
  const SecretBox box(join_keys(keys.all, {next}), next.id, work.random);
  ASSIGN_OR_RETURN(const Pass pass, reseal_all(work, box));
  return base::cat(next.id, " seals: ", told_of(pass),
                   "\nformer keys still open sessions and tokens that were given out: "
                   "'sandbox-gateway keys retire' takes them away");
}

Result<std::string> retire(const KeyWork& work, HostAction& action) {
  ASSIGN_OR_RETURN(const Keys keys, open_keys(work));
  action.details()["key"] = keys.current.id;
  const SecretBox box(keys.all, keys.current.id, work.random);
  ASSIGN_OR_RETURN(const auto slow,
                   wait_for_gateways(work, keys.current.id, seals_by, work.patience));
  if (!slow.empty()) {
    return not_following(
        slow, base::cat("these gateways do not use the key ", keys.current.id, " yet: ", slow));
  }
  // The oldest stand first; behind the one that seals are those of a rotation that has begun.
  KeyRing kept = keys.found.of_file;
  const auto sealing = std::ranges::find(kept, keys.current.id, &MasterKey::id);
  wire::json::Array retired;
  for (auto key = kept.begin(); key != sealing; ++key) {
    retired.emplace_back(key->id);
  }
  const size_t gone = retired.size();
  kept.erase(kept.begin(), sealing);
  action.details()["retired"] = std::move(retired);
  RETURN_IF_ERROR(action.record());
  ASSIGN_OR_RETURN(const Pass pass, reseal_all(work, box));
  if (gone > 0) {
    RETURN_IF_ERROR(write_key_file(work.sources.file, kept));
  }
  return base::cat(keys.current.id, " seals: ", told_of(pass), "\n", gone,
                   " former keys are gone from ", work.sources.file);
}

// Under the lock, with its rows in the audit log.
Result<std::string> run(const KeyWork& work, std::string_view event,
                        Result<std::string> (*act)(const KeyWork&, HostAction&)) {
  ASSIGN_OR_RETURN(const auto locked, lock(work));
  HostAction action(work.store, work.clock, event);
  auto told = act(work, action);
  if (!told) {
    return std::unexpected(action.record_failure(std::move(told).error()));
  }
  return told;
}

}  // namespace

Result<std::string> rotate_keys(KeyWork& work) { return run(work, "key.rotate", rotate); }

Result<std::string> retire_keys(KeyWork& work) { return run(work, "key.retire", retire); }

Result<std::string> list_keys(KeyWork& work) {
  ASSIGN_OR_RETURN(const Keys keys, open_keys(work));
  int64_t total = 0;
  for (const SealedKind kind : kKinds) {
    ASSIGN_OR_RETURN(const int64_t count, work.store.count_sealed(kind, ""));
    total += count;
  }
  std::string out;
  bool is_newer = false;
  for (const MasterKey& key : keys.all) {
    int64_t own = 0;
    for (const SealedKind kind : kKinds) {
      ASSIGN_OR_RETURN(const int64_t count, work.store.count_sealed(kind, key.raw_id));
      own += count;
    }
    const bool is_current = key.id == keys.current.id;
    const bool is_in_file = find_key(keys.found.of_file, key.id) != nullptr;
    out += base::cat(key.id,
                     is_current ? "  seals   "
                     : is_newer ? "  next    "
                                : "  former  ",
                     is_in_file ? "file     " : "command  ", own, " of ", total, " values\n");
    is_newer = is_newer || is_current;
  }
  ASSIGN_OR_RETURN(const auto living, living_gateways(work));
  for (const auto& [gateway, told] : living) {
    out += base::cat(gateway, "  has ", told, "\n");
  }
  out.pop_back();
  return out;
}

}  // namespace service
