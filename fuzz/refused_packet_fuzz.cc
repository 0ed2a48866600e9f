// What the kernel tells of refused packets: nothing in it breaks the reader, and each packet stands
// for at least its own head.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "dns/refused_packet.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto packets =
      dns::parse_refused_packets(std::string_view(reinterpret_cast<const char*>(data), size));
  constexpr size_t kIpv4HeadBytes = 20;
  if (packets.size() * kIpv4HeadBytes > size) {
    std::abort();
  }
  return 0;
}
