// Where the sandboxes whose network is an allow-list may connect to, as the host's firewall has it:
// the sets of its table (network_firewall.cc), changed by netlink in one transaction a call, which
// takes some 0.1 ms. A sandbox is named by its address. Owned by Network; the node's only thread.
// Bounded by the entries of a policy and kLearntMax addresses a sandbox. A call that fails has
// changed nothing.
//
// A connection is allowed when it begins, by an address of the list or by one that an allowed name
// resolved to; then it carries the policy's mark. It goes on while the policy has that mark, also
// when the name's answer has run out; a new policy has a new mark, under which every connection is
// looked at again, with its next packet in either direction.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "model/network_policy.h"
#include "node/netlink.h"
#include "wire/json.h"

namespace node {

// The interface group of sandboxes with an allow-list: what makes the firewall look at its sets. It
// stays with the interface whatever becomes of the node.
inline constexpr uint32_t kRestrictedGroup = 0x5b01;

// The sets' definitions, as a part of the table in nft's language.
std::string egress_sets();

class Egress {
 public:
  // More answers than a program's names have at a time; a name's addresses are some ten at most.
  static constexpr size_t kLearntMax = 512;

  // An address that a name resolved to, for so long.
  struct Answer {
    uint32_t address = 0;
    std::chrono::seconds holds{0};
  };
  // One sandbox at the node's start.
  struct Restored {
    uint32_t sandbox = 0;
    model::AllowList list;
    uint32_t mark = 0;
  };

  // The table is there already.
  static base::Result<Egress> open(const std::string& prefix);

  // From now on that list, in place of the present one; what its names resolved to stays open.
  base::Result<void> set(uint32_t sandbox, model::AllowList list, uint32_t mark);
  // No list any more.
  base::Result<void> clear(uint32_t sandbox);
  [[nodiscard]] bool has(uint32_t sandbox) const { return sandboxes_.contains(sandbox); }
  // Opens what `name` resolved to. not_found: the sandbox has no list or the list not that name.
  base::Result<void> learn(uint32_t sandbox, const std::string& name,
                           std::span<const Answer> answers);
  // Once, at the start: these sandboxes and no others. What was learnt before stays open.
  base::Result<void> restore(std::vector<Restored> all);

 private:
  struct Learnt {
    std::chrono::steady_clock::time_point until;
    std::string name;  // empty: an earlier node's
  };
  struct Sandbox {
    model::AllowList list;
    uint32_t mark = 0;
    std::map<uint32_t, Learnt> learnt;
  };
  class Transaction;

  Egress(std::string table, Netlink netlink)
      : table_(std::move(table)), netlink_(std::move(netlink)) {}
  base::Result<void> read_learnt();
  base::Result<void> read_learnt_one(const wire::json::Value& element,
                                     std::chrono::steady_clock::time_point now);

  std::string table_;
  Netlink netlink_;
  std::map<uint32_t, Sandbox> sandboxes_;
};

}  // namespace node
