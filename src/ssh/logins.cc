#include "ssh/logins.h"

#include <algorithm>

namespace ssh {

std::optional<Logins::Id> Logins::begin(Id id, const std::string& address) {
  std::optional<Id> leaves;
  if (const auto found = by_address_.find(address);
      found != by_address_.end() && found->second >= options_.logins_per_address_max) {
    leaves = std::ranges::find(order_, address, &Login::address)->id;
  } else if (order_.size() >= options_.logins_max) {
    leaves = order_.front().id;
  }
  if (leaves) {
    end(*leaves);
  }
  by_id_[id] = order_.insert(order_.end(), {.id = id, .address = address});
  ++by_address_[address];
  return leaves;
}

void Logins::end(Id id) {
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) {
    return;
  }
  const auto count = by_address_.find(found->second->address);
  if (--count->second == 0) {
    by_address_.erase(count);
  }
  order_.erase(found->second);
  by_id_.erase(found);
}

void Logins::note_refusal(const std::string& address, base::SteadyTime now) {
  forget_old(now);
  Refusals& refusals = refusals_[address];
  if (now - refusals.last > kForgetAfter) {
    refusals.count = 0;
  }
  ++refusals.count;
  refusals.last = now;
}

void Logins::forget_old(base::SteadyTime now) {
  if (refusals_.size() < kAddressesMax) {
    return;
  }
  std::erase_if(refusals_,
                [now](const auto& entry) { return now - entry.second.last > kForgetAfter; });
  if (refusals_.size() >= kAddressesMax) {
    refusals_.erase(refusals_.begin());
  }
}

base::Milliseconds Logins::wait_of(const std::string& address, base::SteadyTime now) const {
  const auto found = refusals_.find(address);
  if (found == refusals_.end() || found->second.count <= kRefusalsFree ||
      now - found->second.last > kForgetAfter) {
    return base::Milliseconds(0);
  }
  base::Milliseconds wait = kFirstWait;
  for (int i = kRefusalsFree + 1; i < found->second.count && wait < kWaitMax; ++i) {
    wait *= 2;
  }
  return std::min(wait, kWaitMax);
}

}  // namespace ssh
