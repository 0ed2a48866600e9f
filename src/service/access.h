// Who calls: bearer tokens to callers. Only hashes are kept, in memory, loaded at start; a look-up
// goes by the hash of what was presented, so its time says nothing of a stored secret. Owned by
// main; loop thread only.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>

#include "base/error.h"

namespace service {

// What a token may do; a route asks for one.
enum class Scope { open, member, admin, metrics };

struct Caller {
  std::string team;
  std::string subject;  // shown as `owner`
  bool is_admin = false;
  bool may_use_sandboxes = false;
  bool may_read_metrics = false;
  [[nodiscard]] bool may(Scope scope) const;
};

// SHA-256 of a token in hex: what the store keeps.
std::string token_hash(std::string_view token);

class Access {
 public:
  void add(std::string hash, Caller caller) { callers_[std::move(hash)] = std::move(caller); }
  // `authorization` is the header's value or nullptr. unauthenticated for a missing or bad token.
  [[nodiscard]] base::Result<Caller> authenticate(const std::string* authorization) const;

 private:
  std::unordered_map<std::string, Caller> callers_;  // by token_hash
};

}  // namespace service
