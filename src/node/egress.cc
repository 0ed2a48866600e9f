#include "node/egress.h"

#include <arpa/inet.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>

#include <algorithm>
#include <optional>

#include "node/program.h"
#include "wire/json.h"

namespace node {

using base::cat;
using base::Result;
using std::chrono::steady_clock;

namespace {

constexpr std::string_view kMarks = "marks";    // sandbox -> mark of its policy
constexpr std::string_view kLive = "live";      // sandbox, mark of its policy
constexpr std::string_view kRanges = "ranges";  // sandbox, addresses of its list
constexpr std::string_view kLearnt = "learnt";  // sandbox, address of a name; with an end
// What an attribute's 16-bit length holds, by far.
constexpr size_t kElementsMax = 512;
// Of one sandbox in a restore: its two small elements, with room for its ranges behind.
constexpr size_t kRestoredBytes = 128;

uint64_t big_endian(uint64_t value) {
  return static_cast<uint64_t>(htonl(static_cast<uint32_t>(value))) << 32 |
         htonl(static_cast<uint32_t>(value >> 32));
}

// A key of the sets: the firewall compares addresses as the packet has them and marks as the
// machine has them.
struct Key {
  uint32_t first = 0;
  uint32_t second = 0;
  static Key pair(uint32_t sandbox, uint32_t address) {
    return {.first = htonl(sandbox), .second = htonl(address)};
  }
};

}  // namespace

std::string egress_sets() {
  // 65,536 sandboxes' worth; the kernel's standard for learnt would be 65,535 in all.
  return "  map marks { type ipv4_addr : mark; }\n"
         "  set live { type ipv4_addr . mark; }\n"
         "  set ranges { type ipv4_addr . ipv4_addr; flags interval; }\n"
         "  set learnt { type ipv4_addr . ipv4_addr; flags timeout; size 1048576; }\n";
}

// One transaction of the firewall's: elements that come and go together.
class Egress::Transaction {
 public:
  explicit Transaction(const std::string& table) : table_(table) {
    edge("begin a transaction", NFNL_MSG_BATCH_BEGIN);
  }

  void flush(std::string_view set) {
    open(set, NFT_MSG_DELSETELEM, 0);
    batch_.end();
  }
  void add_policy(uint32_t sandbox, const Sandbox& policy) {
    change_policy(NFT_MSG_NEWSETELEM, NLM_F_CREATE, sandbox, policy);
  }
  void remove_policy(uint32_t sandbox, const Sandbox& policy) {
    change_policy(NFT_MSG_DELSETELEM, 0, sandbox, policy);
  }
  // Whether it is still there or has just run out: adding first makes that one case.
  void remove_learnt(uint32_t sandbox, std::span<const uint32_t> addresses) {
    change_learnt(NFT_MSG_NEWSETELEM, sandbox, addresses);
    change_learnt(NFT_MSG_DELSETELEM, sandbox, addresses);
  }
  void add_learnt(uint32_t sandbox, std::span<const Answer> answers) {
    std::vector<uint32_t> addresses;
    for (const Answer& answer : answers) {
      addresses.push_back(answer.address);
    }
    remove_learnt(sandbox, addresses);  // the end of one that is there could not be moved
    open(kLearnt, NFT_MSG_NEWSETELEM, NLM_F_CREATE);
    const size_t list = batch_.open(NFTA_SET_ELEM_LIST_ELEMENTS);
    for (const Answer& answer : answers) {
      element(Key::pair(sandbox, answer.address), std::nullopt, answer.holds);
    }
    batch_.close(list);
    batch_.end();
  }
  [[nodiscard]] size_t size() const { return batch_.size(); }
  Result<void> commit(Netlink& netlink) {
    edge("end a transaction", NFNL_MSG_BATCH_END);
    return base::with_context(netlink.run(batch_), "change the firewall");
  }

 private:
  void edge(std::string_view what, uint16_t type) {
    batch_.begin_unanswered(what, type, 0);
    batch_.header(nfgenmsg{
        .nfgen_family = AF_UNSPEC, .version = NFNETLINK_V0, .res_id = htons(NFNL_SUBSYS_NFTABLES)});
    batch_.end();
  }
  void open(std::string_view set, int message, uint16_t flags) {
    batch_.begin(set, static_cast<uint16_t>(NFNL_SUBSYS_NFTABLES << 8 | message), flags);
    batch_.header(nfgenmsg{.nfgen_family = NFPROTO_INET, .version = NFNETLINK_V0, .res_id = 0});
    batch_.attribute_text(NFTA_SET_ELEM_LIST_TABLE, table_);
    batch_.attribute_text(NFTA_SET_ELEM_LIST_SET, set);
  }
  template <typename Value>
  void value(uint16_t type, const Value& bytes) {
    const size_t data = batch_.open(type);
    batch_.attribute_number(NFTA_DATA_VALUE, bytes);
    batch_.close(data);
  }
  void element(const Key& key, std::optional<Key> end = {}, std::chrono::seconds holds = {}) {
    const size_t element = batch_.open(NFTA_LIST_ELEM);
    value(NFTA_SET_ELEM_KEY, key);
    if (end) {
      value(NFTA_SET_ELEM_KEY_END, *end);
    }
    if (holds.count() > 0) {
      batch_.attribute_number(NFTA_SET_ELEM_TIMEOUT,
                              big_endian(static_cast<uint64_t>(holds.count()) * 1000));
    }
    batch_.close(element);
  }
  void change_policy(int message, uint16_t flags, uint32_t sandbox, const Sandbox& policy) {
    open(kMarks, message, flags);
    size_t list = batch_.open(NFTA_SET_ELEM_LIST_ELEMENTS);
    const size_t mark = batch_.open(NFTA_LIST_ELEM);
    value(NFTA_SET_ELEM_KEY, htonl(sandbox));
    value(NFTA_SET_ELEM_DATA, policy.mark);
    batch_.close(mark);
    batch_.close(list);
    batch_.end();
    open(kLive, message, flags);
    list = batch_.open(NFTA_SET_ELEM_LIST_ELEMENTS);
    element(Key{.first = htonl(sandbox), .second = policy.mark});
    batch_.close(list);
    batch_.end();
    if (policy.list.ranges.empty()) {
      return;
    }
    open(kRanges, message, flags);
    list = batch_.open(NFTA_SET_ELEM_LIST_ELEMENTS);
    for (const model::AddressRange& range : policy.list.ranges) {
      element(Key::pair(sandbox, range.first), Key::pair(sandbox, range.last));
    }
    batch_.close(list);
    batch_.end();
  }
  void change_learnt(int message, uint32_t sandbox, std::span<const uint32_t> addresses) {
    while (!addresses.empty()) {
      const auto part = addresses.first(std::min(addresses.size(), kElementsMax));
      addresses = addresses.subspan(part.size());
      open(kLearnt, message, message == NFT_MSG_NEWSETELEM ? NLM_F_CREATE : 0);
      const size_t list = batch_.open(NFTA_SET_ELEM_LIST_ELEMENTS);
      for (const uint32_t address : part) {
        element(Key::pair(sandbox, address));
      }
      batch_.close(list);
      batch_.end();
    }
  }

  const std::string& table_;
  NetlinkBatch batch_;
};

Result<Egress> Egress::open(const std::string& prefix) {
  ASSIGN_OR_RETURN(auto netlink, Netlink::open(NETLINK_NETFILTER));
  Egress egress(cat(prefix, "_sandbox"), std::move(netlink));
  RETURN_IF_ERROR(base::with_context(egress.read_learnt(), "read the firewall"));
  return egress;
}

// What an earlier node has opened; it belongs to sandboxes that are restored, or is closed then.
Result<void> Egress::read_learnt() {
  ASSIGN_OR_RETURN(const std::string text,
                   run_program({"nft", "-j", "list", "set", "inet", table_, std::string(kLearnt)}));
  ASSIGN_OR_RETURN(const auto document, wire::json::parse_object(text));
  const auto now = steady_clock::now();
  const auto* parts = document.if_contains("nftables");
  for (const auto& part :
       parts != nullptr && parts->is_array() ? parts->get_array() : wire::json::Array{}) {
    const auto* set = part.is_object() ? part.get_object().if_contains("set") : nullptr;
    const auto* elements =
        set != nullptr && set->is_object() ? set->get_object().if_contains("elem") : nullptr;
    if (elements == nullptr || !elements->is_array()) {
      continue;
    }
    for (const auto& element : elements->get_array()) {
      RETURN_IF_ERROR(base::with_context(read_learnt_one(element, now), kLearnt));
    }
  }
  return {};
}

// {"elem": {"val": {"concat": ["10.0.0.1", "192.0.2.7"]}, "timeout": 60, "expires": 59}}
Result<void> Egress::read_learnt_one(const wire::json::Value& element,
                                     steady_clock::time_point now) {
  if (!element.is_object()) {
    return base::fail(base::ErrorCode::internal, "an element of another form");
  }
  wire::json::Reader outer(element.get_object());
  ASSIGN_OR_RETURN(const auto inner, outer.required<wire::json::Object>("elem"));
  wire::json::Reader reader(inner);
  ASSIGN_OR_RETURN(const auto left, reader.required<int64_t>("expires"));
  ASSIGN_OR_RETURN(const auto value, reader.required<wire::json::Object>("val"));
  wire::json::Reader key(value);
  ASSIGN_OR_RETURN(const auto pair, key.required<std::vector<std::string>>("concat"));
  const auto sandbox = model::parse_ipv4(pair.front());
  const auto address = model::parse_ipv4(pair.back());
  if (sandbox && address) {
    sandboxes_[*sandbox].learnt[*address] = {.until = now + std::chrono::seconds(left), .name = {}};
  }
  return {};
}

Result<void> Egress::set(uint32_t sandbox, model::AllowList list, uint32_t mark) {
  const auto found = sandboxes_.find(sandbox);
  Sandbox next{.list = std::move(list), .mark = mark, .learnt = {}};
  Transaction transaction(table_);
  if (found != sandboxes_.end()) {
    std::vector<uint32_t> dropped;
    for (auto& [address, learnt] : found->second.learnt) {
      if (!learnt.name.empty() && next.list.allows_name(learnt.name)) {
        next.learnt[address] = learnt;
      } else {
        dropped.push_back(address);
      }
    }
    transaction.remove_policy(sandbox, found->second);
    transaction.remove_learnt(sandbox, dropped);
  }
  transaction.add_policy(sandbox, next);
  RETURN_IF_ERROR(transaction.commit(netlink_));
  sandboxes_[sandbox] = std::move(next);
  return {};
}

Result<void> Egress::clear(uint32_t sandbox) {
  const auto found = sandboxes_.find(sandbox);
  if (found == sandboxes_.end()) {
    return {};
  }
  std::vector<uint32_t> addresses;
  for (const auto& [address, learnt] : found->second.learnt) {
    addresses.push_back(address);
  }
  Transaction transaction(table_);
  transaction.remove_policy(sandbox, found->second);
  transaction.remove_learnt(sandbox, addresses);
  RETURN_IF_ERROR(transaction.commit(netlink_));
  sandboxes_.erase(found);
  return {};
}

Result<void> Egress::learn(uint32_t sandbox, const std::string& name,
                           std::span<const Answer> answers) {
  const auto found = sandboxes_.find(sandbox);
  if (found == sandboxes_.end() || !found->second.list.allows_name(name)) {
    return base::fail(base::ErrorCode::not_found, "the name is not allowed there");
  }
  const auto now = steady_clock::now();
  auto& learnt = found->second.learnt;
  // What has run out is gone from the firewall.
  std::erase_if(learnt, [now](const auto& entry) { return entry.second.until <= now; });
  if (learnt.size() + answers.size() > kLearntMax) {
    return base::fail(base::ErrorCode::overloaded, "the sandbox has asked for too many names");
  }
  if (answers.empty()) {
    return {};
  }
  Transaction transaction(table_);
  transaction.add_learnt(sandbox, answers);
  RETURN_IF_ERROR(transaction.commit(netlink_));
  for (const Answer& answer : answers) {
    learnt[answer.address] = {.until = now + answer.holds, .name = name};
  }
  return {};
}

Result<void> Egress::restore(std::vector<Restored> all) {
  std::map<uint32_t, Sandbox> wanted;
  for (Restored& each : all) {
    wanted[each.sandbox] = {.list = std::move(each.list), .mark = each.mark, .learnt = {}};
  }
  std::optional<Transaction> transaction(std::in_place, table_);
  for (const std::string_view set : {kMarks, kLive, kRanges}) {
    transaction->flush(set);
  }
  for (auto& [sandbox, known] : sandboxes_) {
    const auto same = wanted.find(sandbox);
    if (same != wanted.end()) {
      same->second.learnt = std::move(known.learnt);
      continue;
    }
    std::vector<uint32_t> addresses;
    addresses.reserve(known.learnt.size());
    for (const auto& [address, learnt] : known.learnt) {
      addresses.push_back(address);
    }
    if (transaction->size() + addresses.size() * kRestoredBytes > NetlinkBatch::kBytesMax) {
      RETURN_IF_ERROR(transaction->commit(netlink_));
      transaction.emplace(table_);
    }
    transaction->remove_learnt(sandbox, addresses);
  }
  // As many as fit come with the flush, so that nothing of theirs is ever closed.
  for (const auto& [sandbox, policy] : wanted) {
    const size_t room = (policy.list.ranges.size() + 1) * kRestoredBytes;
    if (transaction->size() + room > NetlinkBatch::kBytesMax) {
      RETURN_IF_ERROR(transaction->commit(netlink_));
      transaction.emplace(table_);
    }
    transaction->add_policy(sandbox, policy);
  }
  RETURN_IF_ERROR(transaction->commit(netlink_));
  sandboxes_ = std::move(wanted);
  return {};
}

}  // namespace node
