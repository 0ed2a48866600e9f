// YAML of definitions: what is taken is JSON that our own parser takes.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "definition/yaml.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto value = definition::parse_yaml({reinterpret_cast<const char*>(data), size});
  if (value && !wire::json::parse(wire::json::serialize(*value))) {
    __builtin_trap();
  }
  return 0;
}
