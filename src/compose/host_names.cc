#include "compose/host_names.h"

#include <algorithm>

#include "base/text.h"
#include "compose/refusal.h"

namespace compose {
namespace {

constexpr size_t kNameBytesMax = 63;  // the kernel's limit of a host name is 64
constexpr size_t kAddressParts = 4;

}  // namespace

base::Result<void> check_host_name(std::string_view name, std::string_view field) {
  const auto fine = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.' || c == '-';
  };
  if (name.empty() || name.size() > kNameBytesMax || !std::ranges::all_of(name, fine)) {
    return refuse(field, "a host's name has 1 to ", kNameBytesMax,
                  " letters, digits, '.', '_' and '-'");
  }
  return {};
}

bool is_address(std::string_view text) {
  const auto parts = base::split(text, '.');
  return parts.size() == kAddressParts && std::ranges::all_of(parts, [](std::string_view part) {
           const auto number = base::parse_number<unsigned>(part);
           return number && *number <= UINT8_MAX;
         });
}

}  // namespace compose
