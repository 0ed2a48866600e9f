// Who may come in: how many logins are under way, from everywhere and from each address, and how
// often an address was refused. Holds small numbers only, for at most kAddressesMax addresses. Pure
// but for the time that is handed in.
#pragma once

#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <unordered_map>

#include "ssh/options.h"

namespace ssh {

class Logins {
 public:
  // Refusals without consequence: a person's mistakes. Beyond them an address waits.
  static constexpr int kRefusalsFree = 5;
  static constexpr base::Milliseconds kFirstWait{1'000};
  static constexpr base::Milliseconds kWaitMax{5'000};
  // After so long without a refusal all are forgotten.
  static constexpr base::Milliseconds kForgetAfter{600'000};
  static constexpr size_t kAddressesMax = 10'000;

  explicit Logins(const Options& options) : options_(options) {}

  using Id = uint64_t;
  // One more is there. The one that has to go for it, if any: the oldest of the address that has
  // too many, or of all.
  std::optional<Id> begin(Id id, const std::string& address);
  // It has signed in, or is gone.
  void end(Id id);
  [[nodiscard]] size_t under_way() const { return order_.size(); }

  void note_refusal(const std::string& address, base::SteadyTime now);
  void note_success(const std::string& address) { refusals_.erase(address); }
  // How long a new connection from there is not listened to.
  [[nodiscard]] base::Milliseconds wait_of(const std::string& address, base::SteadyTime now) const;

 private:
  struct Login {
    Id id;
    std::string address;
  };
  struct Refusals {
    int count = 0;
    base::SteadyTime last;
  };
  void forget_old(base::SteadyTime now);

  const Options& options_;
  std::list<Login> order_;  // oldest first
  std::unordered_map<Id, std::list<Login>::iterator> by_id_;
  std::unordered_map<std::string, size_t> by_address_;
  std::unordered_map<std::string, Refusals> refusals_;
};

}  // namespace ssh
