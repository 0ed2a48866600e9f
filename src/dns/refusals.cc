#include "dns/refusals.h"

#include <errno.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>

#include "dns/refused_packet.h"
#include "model/network_policy.h"

namespace dns {
namespace {

// More sandboxes than a machine has; what is forgotten then begins anew.
constexpr size_t kSandboxesMax = 65'536;
// Read before others get their turn. The kernel sends at most 32 KiB at once.
constexpr int kDatagramsAtOnce = 16;
constexpr size_t kDatagramBytesMax = 65'536;

}  // namespace

bool RefusalRate::admit(base::SteadyTime now) {
  const std::chrono::duration<double> passed = now - counted_;
  counted_ = now;
  allowance_ = std::min(kAtOnce, allowance_ + passed.count() * kPerSecond);
  if (allowance_ < 1) {
    ++passed_over_;
    return false;
  }
  allowance_ -= 1;
  return true;
}

void Refusals::serve(base::Fd packets) {
  packets_ = std::move(packets);
  wait_for_packets();
}

void Refusals::wait_for_packets() {
  loop_.watch(packets_.get(), net::EventLoop::Direction::read, [this] {
    read_packets();
    wait_for_packets();
  });
}

void Refusals::read_packets() {
  for (int i = 0; i < kDatagramsAtOnce; ++i) {
    std::array<char, kDatagramBytesMax> buffer;
    const ssize_t got = ::recv(packets_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      return;
    }
    const std::string_view datagram(buffer.data(), static_cast<size_t>(got));
    for (const RefusedPacket& packet : parse_refused_packets(datagram)) {
      tell(packet.from, {{"address", model::ipv4_text(packet.to)},
                         {"protocol", packet.protocol},
                         {"port", packet.port}});
    }
  }
}

void Refusals::note_name(uint32_t sandbox, const std::string& name, bool unreachable) {
  tell(sandbox, {{"name", name}, {"unreachable", unreachable}});
}

void Refusals::tell(uint32_t sandbox, wire::json::Object line) {
  if (rates_.size() >= kSandboxesMax) {
    rates_.clear();
  }
  RefusalRate& rate = rates_[sandbox];
  if (!rate.admit(std::chrono::steady_clock::now())) {
    return;
  }
  line["refused"] = model::ipv4_text(sandbox);
  line["more"] = rate.take_passed_over();
  // One that does not take it is gone, which is noticed where its lines are read.
  [[maybe_unused]] const auto sent = node_.send(std::move(line));
}

}  // namespace dns
