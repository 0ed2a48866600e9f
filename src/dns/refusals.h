// What policies refused, told to the node: names that are not allowed, and packets that the
// firewall dropped. A sandbox that asks without end fills nothing: of each kAtOnce are told and
// kPerSecond go on being told; how many were passed over comes with the next one. Owned by Server;
// its loop's thread only.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/clock.h"
#include "base/fd.h"
#include "net/event_loop.h"
#include "net/json_lines.h"

namespace dns {

// Of one sandbox: which of its refusals are told.
class RefusalRate {
 public:
  static constexpr double kAtOnce = 60;
  static constexpr double kPerSecond = 1;

  // Whether this one is.
  bool admit(base::SteadyTime now);
  // How many were not since it was last asked.
  int64_t take_passed_over() { return std::exchange(passed_over_, 0); }

 private:
  double allowance_ = kAtOnce;
  base::SteadyTime counted_{};
  int64_t passed_over_ = 0;
};

class Refusals {
 public:
  Refusals(net::EventLoop& loop, net::JsonLines& node) : loop_(loop), node_(node) {}
  Refusals(const Refusals&) = delete;
  Refusals& operator=(const Refusals&) = delete;

  // From now on what the kernel tells by that socket (nfnetlink_log).
  void serve(base::Fd packets);
  // `unreachable`: the name is allowed, but no address of its.
  void note_name(uint32_t sandbox, const std::string& name, bool unreachable);

 private:
  void wait_for_packets();
  void read_packets();
  void tell(uint32_t sandbox, wire::json::Object line);

  net::EventLoop& loop_;
  net::JsonLines& node_;
  base::Fd packets_;
  std::map<uint32_t, RefusalRate> rates_;
};

}  // namespace dns
