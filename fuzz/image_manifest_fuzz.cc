// Manifests and configs of images: any bytes.
#include <cstdint>

#include "image/manifest.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  (void)image::parse_manifest(bytes);
  (void)image::parse_config(bytes, 1);
  return 0;
}
