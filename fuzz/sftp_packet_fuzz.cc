// Packets of an SFTP client: reading ends, never leaves the packet, and what was read whole can be
// written and read again.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "agent/sftp_packet.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace agent::sftp;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  PacketReader reader(bytes);
  const uint8_t type = reader.number8();
  const uint32_t id = reader.number32();
  const std::string path = reader.path();
  const Attributes attributes = reader.attributes();
  const std::string_view text = reader.text();
  if (!reader.ok() || attributes.has(Attributes::kExtended)) {
    return 0;
  }
  std::string again;
  PacketWriter writer(again);
  writer.begin(static_cast<Type>(type)).number32(id).text(path).attributes(attributes).text(text);
  writer.finish();
  if (packet_length(again) != again.size() - kLengthBytes ||
      !bytes.starts_with(std::string_view(again).substr(kLengthBytes))) {
    std::abort();
  }
  return 0;
}
