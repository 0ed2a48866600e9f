// What an operator's command or a key file says of keys: neither breaks anything, what is taken is
// whole keys, each once, and an error has nothing of them in it.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "service/master_keys.h"

namespace {

void check(const base::Result<service::KeyRing>& keys) {
  if (!keys) {
    return;
  }
  if (keys->empty() || keys->size() > service::kMasterKeysMax) {
    std::abort();
  }
  for (const service::MasterKey& key : *keys) {
    if (key.bytes.reveal().size() != service::kMasterKeyBytes ||
        service::find_key(*keys, key.id) != &key) {
      std::abort();
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  check(service::parse_key_lines(text));
  const auto of_file = service::parse_key_file(text);
  check(of_file);
  if (of_file && of_file->size() * service::kMasterKeyBytes != size) {
    std::abort();
  }
  return 0;
}
