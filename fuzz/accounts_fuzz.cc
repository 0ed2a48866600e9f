// /etc/passwd, /etc/group and a user, each on from a line "%%" of its own: all three come from the
// image or the client. What is found must be an id the kernel takes as one.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "agent/accounts.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  const auto cut = [&rest] {
    constexpr std::string_view kMark = "\n%%\n";
    const size_t end = rest.find(kMark);
    const std::string_view part = rest.substr(0, end);
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + kMark.size());
    return part;
  };
  const std::string_view user = cut();
  const std::string_view passwd = cut();
  const auto identity = agent::resolve_user(user, passwd, rest);
  if (identity && (identity->uid == UINT32_MAX || identity->gid == UINT32_MAX ||
                   !identity->home.starts_with('/'))) {
    std::abort();
  }
  return 0;
}
