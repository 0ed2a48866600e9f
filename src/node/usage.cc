#include "node/usage.h"

namespace node {

Usage read_usage(Places& places, uint32_t index, std::string id) {
  const std::string name = Places::name_of(index);
  Usage usage{.id = std::move(id), .processes = places.cgroups().usage(name)};
  usage.storage_bytes = places.storage().used_bytes(name).value_or(kUsageUnknown);
  if (const auto network = places.network().usage(index)) {
    usage.received_bytes = network->received_bytes;
    usage.sent_bytes = network->sent_bytes;
  }
  return usage;
}

wire::json::Object to_json(const Usage& usage) {
  return {{"id", usage.id},
          {"cpu_usec", usage.processes.cpu_usec},
          {"memory_bytes", usage.processes.memory_bytes},
          {"pids", usage.processes.pids},
          {"storage_bytes", usage.storage_bytes},
          {"rx_bytes", usage.received_bytes},
          {"tx_bytes", usage.sent_bytes}};
}

}  // namespace node
