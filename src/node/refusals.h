// What the network policy of a sandbox refused, as its events tell it: values and pure decisions.
// A sandbox is hostile: each thing is told once in kRememberedFor, and no more than kAtOnce of
// them, then one more each kOneMoreEach; what is beyond is counted.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/error.h"
#include "wire/json.h"

namespace node {

struct Refusal {
  std::string reason;   // one of the API's: name_refused, address_refused, no_network
  std::string subject;  // "a.example.com" or "192.0.2.7 port 443 (tcp)"
  std::string message;  // a sentence with the subject
  int64_t more = 0;     // refusals that whoever noticed it passed over
};

// By the sandbox's address.
using RefusalListener = std::function<void(uint32_t sandbox, const Refusal& refusal)>;

// A line of sandbox-dns (src/dns/server.h), the sandbox left out; hostile.
base::Result<Refusal> parse_refusal(wire::json::Reader& line);

// Field OutNoRoutes of /proc/PID/net/snmp: what was sent into a network that is not there.
std::optional<int64_t> sent_without_route(std::string_view snmp);

class RefusalLimit {
 public:
  static constexpr int kAtOnce = 20;
  static constexpr std::chrono::seconds kOneMoreEach{60};
  static constexpr std::chrono::hours kRememberedFor{1};

  // Whether it is to be told. The others are counted, those that were told already are not.
  bool admit(const Refusal& refusal, base::SteadyTime now);
  // How many were not told since it was last asked.
  int64_t take_untold();

 private:
  double allowance_ = kAtOnce;
  base::SteadyTime counted_{};
  int64_t untold_ = 0;
  std::map<std::string, base::SteadyTime> told_;
};

}  // namespace node
