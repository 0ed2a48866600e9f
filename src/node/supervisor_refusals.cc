// Supervisor: what the network policies refused, as events.
#include <unistd.h>

#include <algorithm>

#include "base/sys.h"
#include "node/supervisor.h"

namespace node {
namespace {

// How late an event of a sandbox without a network may be.
constexpr base::Milliseconds kRouteLook{5'000};
// Some 2 KiB.
constexpr size_t kSnmpBytesMax = 65'536;

int64_t read_sent_without_route(pid_t process) {
  const auto text = base::sys::read_file(base::cat("/proc/", process, "/net/snmp"), kSnmpBytesMax);
  return text ? sent_without_route(*text).value_or(0) : 0;
}

}  // namespace

void Supervisor::note_refusal(uint32_t address, const Refusal& refusal) {
  const auto is_it = [&](const auto& entry) {
    const Sandbox& sandbox = *entry.second;
    return sandbox.has_place && !sandbox.removing &&
           places_.network().has_address(sandbox.record.index, address);
  };
  const auto found = std::ranges::find_if(sandboxes_, is_it);
  if (found != sandboxes_.end()) {
    tell_refusal(*found->second, refusal);
  }
}

void Supervisor::tell_refusal(Sandbox& sandbox, const Refusal& refusal) {
  if (!sandbox.refusals.admit(refusal, clock_.steady()) || !listener_) {
    return;
  }
  std::string message = refusal.message;
  if (const int64_t untold = sandbox.refusals.take_untold(); untold > 0) {
    message += base::cat("; ", untold, " more refusals were not told");
  }
  Status status = sandbox.status;
  status.reason = refusal.reason;
  listener_(
      Change{.type = "policy_denied", .message = std::move(message), .status = std::move(status)});
}

void Supervisor::begin_counting(Sandbox& sandbox) {
  sandbox.sent_without_route = read_sent_without_route(sandbox.record.process.pid);
}

// Nothing leaves a sandbox whose network is off, so only its kernel counters show that it tried.
net::Task<void> Supervisor::watch_networks() {
  for (;;) {
    const auto wake = co_await loop_.sleep_until(net::Deadline::after(kRouteLook));
    if (wake == net::EventLoop::Wake::cancelled) {
      co_return;
    }
    for (const auto& [id, sandbox] : sandboxes_) {
      if (sandbox->record.network.mode != model::NetworkMode::none || !sandbox->has_place ||
          sandbox->status.state != State::ready || sandbox->removing) {
        continue;
      }
      const int64_t before = sandbox->sent_without_route;
      begin_counting(*sandbox);
      if (sandbox->sent_without_route > before) {
        tell_refusal(*sandbox, {.reason = "no_network",
                                .subject = "",
                                .message = "something was sent, and the network is off"});
      }
    }
  }
}

}  // namespace node
