// Where a sandbox may connect to: everything, nothing, or a list of addresses, address ranges and
// host names. A value that cannot be wrong: its entries are checked and in one form only. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace model {

enum class NetworkMode { open, none, allow };
std::string_view to_string(NetworkMode mode);
std::optional<NetworkMode> parse_network_mode(std::string_view text);

struct NetworkPolicy {
  NetworkMode mode = NetworkMode::open;
  // Of `allow`: "192.0.2.7", "192.0.2.0/24", "example.com" or "*.example.com", each once.
  std::vector<std::string> allow;

  bool operator==(const NetworkPolicy&) const = default;
};

// From what a person wrote; errors are invalid_field and missing_field and name `field`.mode or
// `field`.allow.
base::Result<NetworkPolicy> make_network_policy(
    std::string_view mode, const std::optional<std::vector<std::string>>& allow,
    std::string_view field);

// One line, "open", "none" or "allow ENTRY ENTRY...": how store and node keep it.
std::string to_text(const NetworkPolicy& policy);
base::Result<NetworkPolicy> parse_network_policy(std::string_view text);

// Addresses in host byte order, both ends included.
struct AddressRange {
  uint32_t first = 0;
  uint32_t last = 0;
  bool operator==(const AddressRange&) const = default;
};

// An allow-list taken apart.
struct AllowList {
  std::vector<AddressRange> ranges;  // none inside another, ascending
  std::vector<std::string> names;    // with "*." in front where all names below are meant

  [[nodiscard]] bool allows_address(uint32_t address) const;
  // `name` in lower case, without a dot at its end.
  [[nodiscard]] bool allows_name(std::string_view name) const;
};
AllowList allow_list(const NetworkPolicy& policy);

// Never reached from a sandbox, whatever is allowed: this host, link-local (metadata services),
// multicast.
bool is_never_reachable(uint32_t address);
// Of private networks: a name that resolves to one opens nothing (DNS rebinding); such addresses
// are allowed as addresses.
bool is_private(uint32_t address);

std::optional<uint32_t> parse_ipv4(std::string_view text);
std::string ipv4_text(uint32_t address);

}  // namespace model
