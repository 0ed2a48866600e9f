#include "model/network_policy.h"

#include <algorithm>
#include <array>

#include "base/host.h"

namespace model {

using base::Result;

namespace {

struct ModeRow {
  NetworkMode mode;
  std::string_view name;
};
constexpr auto kModes = std::to_array<ModeRow>({
    {NetworkMode::open, "open"},
    {NetworkMode::none, "none"},
    {NetworkMode::allow, "allow"},
});

// More than any task needs; the sum over all sandboxes is what the host's firewall holds.
constexpr size_t kEntriesMax = 256;
constexpr int kAddressBits = 32;
constexpr std::string_view kBelow = "*.";

struct Network {
  uint32_t address;
  int bits;

  [[nodiscard]] constexpr uint32_t mask() const {
    return bits == 0 ? 0 : ~uint32_t{0} << (kAddressBits - bits);
  }
  [[nodiscard]] constexpr bool holds(uint32_t other) const { return (other & mask()) == address; }
};

constexpr auto kNeverReachable = std::to_array<Network>({
    {0x00000000, 8},   // this network
    {0x7f000000, 8},   // loopback
    {0xa9fe0000, 16},  // link-local
    {0xe0000000, 3},   // multicast, reserved, broadcast
});
constexpr auto kPrivate = std::to_array<Network>({
    {0x0a000000, 8},
    {0x64400000, 10},  // shared address space (RFC 6598)
    {0xac100000, 12},
    {0xc0000000, 24},  // protocol assignments
    {0xc0a80000, 16},
});

template <typename... Parts>
std::unexpected<base::Error> refuse(std::string_view field, std::string_view entry,
                                    const Parts&... parts) {
  return base::fail_field(field, "'", field, "': '", entry, "' ", parts...);
}

bool is_label(std::string_view label) { return !label.starts_with('-') && !label.ends_with('-'); }

bool is_number(std::string_view label) {
  return std::ranges::all_of(label, [](char c) { return c >= '0' && c <= '9'; });
}

Result<std::string> check_name(std::string_view field, std::string_view entry) {
  std::string name = base::lower(entry);
  if (name.ends_with('.')) {
    name.pop_back();
  }
  const std::string_view host =
      std::string_view(name).substr(name.starts_with(kBelow) ? kBelow.size() : 0);
  if (std::ranges::any_of(entry, [](char c) { return static_cast<unsigned char>(c) > 0x7e; })) {
    return refuse(field, entry, "is no ASCII name: write it in its xn-- form");
  }
  if (entry.contains("://") || entry.contains('/')) {
    return refuse(field, entry, "is no host name: only the host of a URL can be allowed");
  }
  if (std::ranges::count(entry, ':') > 1) {
    return refuse(field, entry, "is an IPv6 address: sandboxes have no IPv6");
  }
  if (entry.contains(':')) {
    return refuse(field, entry, "names a port: a host is allowed with all its ports");
  }
  const auto labels = base::split(host, '.');
  if (host.contains('*')) {
    return refuse(field, entry, "has a '*' that is not the whole first label");
  }
  if (!base::is_host_name(host) || !std::ranges::all_of(labels, is_label)) {
    return refuse(field, entry, "is not an IPv4 address, a range of them, or a host name");
  }
  if (is_number(labels.back())) {
    return refuse(field, entry, "is not a whole IPv4 address");
  }
  return name;
}

Result<std::string> check_range(std::string_view field, std::string_view entry, size_t slash) {
  const auto address = parse_ipv4(entry.substr(0, slash));
  const auto bits = base::parse_number<int>(entry.substr(slash + 1));
  if (!bits || *bits < 0 || *bits > kAddressBits) {
    return refuse(field, entry, "is not a range: the length is a number from 0 to 32");
  }
  const Network network{.address = *address, .bits = *bits};
  if ((*address & ~network.mask()) != 0) {
    return refuse(field, entry,
                  "has bits set beyond its length: ", ipv4_text(*address & network.mask()), "/",
                  *bits, " may be meant");
  }
  const auto holds_all = [&](const Network& never) {
    return never.bits <= *bits && never.holds(*address);
  };
  if (std::ranges::any_of(kNeverReachable, holds_all)) {
    return refuse(field, entry, "is never reachable from a sandbox");
  }
  const std::string text = ipv4_text(*address);
  return *bits == kAddressBits ? text : base::cat(text, "/", *bits);
}

Result<std::string> check_entry(std::string_view field, std::string_view entry) {
  if (parse_ipv4(entry)) {
    return check_range(field, base::cat(entry, "/", kAddressBits), entry.size());
  }
  const size_t slash = entry.find('/');
  if (slash != std::string_view::npos && parse_ipv4(entry.substr(0, slash))) {
    return check_range(field, entry, slash);
  }
  return check_name(field, entry);
}

}  // namespace

std::string_view to_string(NetworkMode mode) {
  return std::ranges::find(kModes, mode, &ModeRow::mode)->name;
}

std::optional<NetworkMode> parse_network_mode(std::string_view text) {
  const auto* found = std::ranges::find(kModes, text, &ModeRow::name);
  return found == kModes.end() ? std::nullopt : std::optional(found->mode);
}

Result<NetworkPolicy> make_network_policy(std::string_view mode,
                                          const std::optional<std::vector<std::string>>& allow,
                                          std::string_view field) {
  const auto parsed = parse_network_mode(mode);
  if (!parsed) {
    return base::fail_field(base::cat(field, ".mode"), "'", field,
                            ".mode' must be open, none or allow");
  }
  const std::string list = base::cat(field, ".allow");
  NetworkPolicy policy{.mode = *parsed, .allow = {}};
  if (policy.mode != NetworkMode::allow) {
    if (allow) {
      return base::fail_field(list, "'", list, "' goes with the mode allow only");
    }
    return policy;
  }
  if (!allow) {
    auto missing =
        base::fail(base::ErrorCode::missing_field, "'", list, "' is required with the mode allow");
    return std::unexpected(std::move(missing).error().with("field", list));
  }
  if (allow->size() > kEntriesMax) {
    return base::fail_field(list, "'", list, "' has more than ", kEntriesMax, " entries");
  }
  for (const std::string& entry : *allow) {
    ASSIGN_OR_RETURN(std::string checked, check_entry(list, entry));
    if (std::ranges::find(policy.allow, checked) == policy.allow.end()) {
      policy.allow.push_back(std::move(checked));
    }
  }
  return policy;
}

std::string to_text(const NetworkPolicy& policy) {
  std::string text(to_string(policy.mode));
  for (const std::string& entry : policy.allow) {
    text += base::cat(' ', entry);
  }
  return text;
}

Result<NetworkPolicy> parse_network_policy(std::string_view text) {
  const auto parts = base::split(text, ' ');
  std::optional<std::vector<std::string>> allow;
  if (parts.size() > 1 || parts.front() == to_string(NetworkMode::allow)) {
    allow.emplace(parts.begin() + 1, parts.end());
  }
  return make_network_policy(parts.front(), allow, "network");
}

bool AllowList::allows_address(uint32_t address) const {
  return std::ranges::any_of(ranges, [address](const AddressRange& range) {
    return range.first <= address && address <= range.last;
  });
}

bool AllowList::allows_name(std::string_view name) const {
  return std::ranges::any_of(names, [name](std::string_view allowed) {
    // "*.host" covers what ends in ".host", at any depth.
    return allowed.starts_with(kBelow)
               ? name.size() >= allowed.size() && name.ends_with(allowed.substr(1))
               : name == allowed;
  });
}

AllowList allow_list(const NetworkPolicy& policy) {
  AllowList list;
  std::vector<AddressRange> ranges;
  for (const std::string& entry : policy.allow) {
    const size_t slash = entry.find('/');
    const auto address = parse_ipv4(std::string_view(entry).substr(0, slash));
    if (!address) {
      list.names.push_back(entry);
      continue;
    }
    const int bits = slash == std::string::npos
                         ? kAddressBits
                         : base::parse_number<int>(std::string_view(entry).substr(slash + 1))
                               .value_or(kAddressBits);
    ranges.push_back({*address, *address | ~Network{*address, bits}.mask()});
  }
  // Two such ranges are apart or one holds the other: the larger of a pair comes first.
  std::ranges::sort(ranges, [](const AddressRange& a, const AddressRange& b) {
    return a.first != b.first ? a.first < b.first : a.last > b.last;
  });
  for (const AddressRange& range : ranges) {
    if (list.ranges.empty() || range.first > list.ranges.back().last) {
      list.ranges.push_back(range);
    }
  }
  return list;
}

bool is_never_reachable(uint32_t address) {
  return std::ranges::any_of(kNeverReachable,
                             [address](const Network& network) { return network.holds(address); });
}

bool is_private(uint32_t address) {
  return std::ranges::any_of(kPrivate,
                             [address](const Network& network) { return network.holds(address); });
}

std::optional<uint32_t> parse_ipv4(std::string_view text) {
  uint32_t address = 0;
  const auto parts = base::split(text, '.');
  if (parts.size() != 4) {
    return std::nullopt;
  }
  for (const std::string_view part : parts) {
    // A zero in front would be octal to some readers.
    const auto byte = base::parse_number<uint8_t>(part);
    if (!byte || (part.size() > 1 && part.front() == '0')) {
      return std::nullopt;
    }
    address = address << 8 | *byte;
  }
  return address;
}

std::string ipv4_text(uint32_t address) {
  return base::cat(address >> 24, '.', (address >> 16) & 255, '.', (address >> 8) & 255, '.',
                   address & 255);
}

}  // namespace model
