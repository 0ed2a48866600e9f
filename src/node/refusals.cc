#include "node/refusals.h"

#include <netinet/in.h>

#include <algorithm>
#include <vector>

#include "base/host.h"
#include "model/network_policy.h"

namespace node {

using base::cat;
using base::Result;

namespace {

constexpr int64_t kPortMax = 65'535;
constexpr int64_t kProtocolMax = 255;
// Far above what a sandbox can try; a sum of such stays a number.
constexpr int64_t kMoreMax = int64_t{1} << 32;

std::string protocol_name(int64_t protocol) {
  switch (protocol) {
    case IPPROTO_TCP:
      return "tcp";
    case IPPROTO_UDP:
      return "udp";
    case IPPROTO_ICMP:
      return "icmp";
    default:
      return cat("protocol ", protocol);
  }
}

std::unexpected<base::Error> out_of_bounds() {
  return base::fail(base::ErrorCode::malformed, "a refusal that is out of bounds");
}

Result<Refusal> parse_refused_name(const std::string& name, wire::json::Reader& line) {
  ASSIGN_OR_RETURN(const auto unreachable, line.required<bool>("unreachable"));
  if (!base::is_host_name(name)) {
    return out_of_bounds();
  }
  Refusal refusal{.reason = "name_refused", .subject = name, .message = {}};
  refusal.message = cat(name, unreachable ? " resolves to addresses that are not allowed only"
                                          : " is not on the allow-list");
  return refusal;
}

Result<Refusal> parse_refused_address(const std::string& text, wire::json::Reader& line) {
  const auto address = model::parse_ipv4(text);
  ASSIGN_OR_RETURN(const auto protocol, line.required<int64_t>("protocol"));
  ASSIGN_OR_RETURN(const auto port, line.required<int64_t>("port"));
  if (!address || protocol < 0 || protocol > kProtocolMax || port < 0 || port > kPortMax) {
    return out_of_bounds();
  }
  Refusal refusal{
      .reason = "address_refused",
      .subject = cat(model::ipv4_text(*address), port == 0 ? std::string() : cat(" port ", port),
                     " (", protocol_name(protocol), ")"),
      .message = {}};
  refusal.message = cat(refusal.subject, " may not be reached");
  return refusal;
}

}  // namespace

Result<Refusal> parse_refusal(wire::json::Reader& line) {
  ASSIGN_OR_RETURN(const auto name, line.optional<std::string>("name"));
  ASSIGN_OR_RETURN(const auto address, line.optional<std::string>("address"));
  ASSIGN_OR_RETURN(const auto more, line.required<int64_t>("more"));
  if (more < 0 || more > kMoreMax) {
    return out_of_bounds();
  }
  auto refusal =
      name ? parse_refused_name(*name, line) : parse_refused_address(address.value_or(""), line);
  if (refusal) {
    refusal->more = more;
  }
  return refusal;
}

// "Ip: Forwarding DefaultTTL ...\nIp: 1 64 ...\n": names, then their values.
std::optional<int64_t> sent_without_route(std::string_view snmp) {
  std::vector<std::string_view> names;
  for (const std::string_view line : base::split(snmp, '\n')) {
    if (!line.starts_with("Ip: ")) {
      continue;
    }
    auto words = base::split(line, ' ');
    if (names.empty()) {
      names = std::move(words);
      continue;
    }
    const auto at = static_cast<size_t>(std::ranges::find(names, "OutNoRoutes") - names.begin());
    return at < words.size() ? base::parse_number<int64_t>(words[at]) : std::nullopt;
  }
  return std::nullopt;
}

bool RefusalLimit::admit(const Refusal& refusal, base::SteadyTime now) {
  untold_ += refusal.more;
  std::erase_if(told_, [now](const auto& entry) { return now - entry.second >= kRememberedFor; });
  if (told_.contains(refusal.subject)) {
    return false;
  }
  const std::chrono::duration<double> passed = now - counted_;
  counted_ = now;
  allowance_ = std::min<double>(kAtOnce, allowance_ + passed / kOneMoreEach);
  if (allowance_ < 1) {
    ++untold_;
    return false;
  }
  allowance_ -= 1;
  told_[refusal.subject] = now;
  return true;
}

int64_t RefusalLimit::take_untold() { return std::exchange(untold_, 0); }

}  // namespace node
