// JSON bodies: parse, write and parse again, read every field as every type. The values are not
// compared: Boost 1.81 reads long decimals with an error in the last place.
#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "wire/json.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto value = wire::json::parse(text);
  if (!value) {
    return 0;
  }
  if (!wire::json::parse(wire::json::serialize(*value))) {
    std::abort();  // we wrote what we do not read
  }
  if (!value->is_object()) {
    return 0;
  }
  const wire::json::Object& object = value->get_object();
  wire::json::Reader reader(object, "fuzz");
  for (const auto& field : object) {
    const std::string_view name = field.key();
    (void)reader.optional<std::string>(name);
    (void)reader.optional<int64_t>(name);
    (void)reader.optional<double>(name);
    (void)reader.optional<bool>(name);
    (void)reader.optional<wire::json::Array>(name);
    (void)reader.optional<std::vector<std::string>>(name);
    (void)reader.optional<std::map<std::string, std::string>>(name);
  }
  if (!reader.finish()) {
    std::abort();  // every field was asked for
  }
  return 0;
}
