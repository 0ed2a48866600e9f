#include "base/sys.h"
#include "node/network.h"

namespace node {
namespace {

constexpr size_t kSysfsBytesMax = 64;

base::Result<int64_t> read_counter(const std::string& interface, std::string_view name) {
  ASSIGN_OR_RETURN(
      const std::string text,
      base::sys::read_file(base::cat("/sys/class/net/", interface, "/statistics/", name),
                           kSysfsBytesMax));
  const auto bytes = base::parse_number<int64_t>(std::string_view(text).substr(0, text.find('\n')));
  return bytes ? base::Result<int64_t>(*bytes)
               : base::fail(base::ErrorCode::internal, "a counter of ", interface,
                            " is not a number");
}

}  // namespace

base::Result<NetworkUsage> Network::usage(uint32_t index) const {
  NetworkUsage usage;
  // What the host's end sends the sandbox receives.
  ASSIGN_OR_RETURN(usage.received_bytes, read_counter(interface(index), "tx_bytes"));
  ASSIGN_OR_RETURN(usage.sent_bytes, read_counter(interface(index), "rx_bytes"));
  return usage;
}

}  // namespace node
