// A layer as it comes from a registry: any bytes, unpacked into a folder of this process's own.
// Nothing may appear beside that folder.
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

#include "base/sys.h"
#include "image/archive.h"

namespace {

std::string make_outer() {
  char name[] = "/tmp/layer-fuzz-XXXXXX";
  image::use_byte_names();
  return ::mkdtemp(static_cast<char*>(name));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::string outer = make_outer();
  const std::string layer = outer + "/layer";
  if (!base::sys::make_folder(layer, 0755)) {
    ::abort();
  }
  base::Fd bytes(::memfd_create("layer", MFD_CLOEXEC));
  if (!base::sys::write_all(bytes.get(), {reinterpret_cast<const char*>(data), size})) {
    ::abort();
  }
  ::lseek(bytes.get(), 0, SEEK_SET);
  {
    image::LayerLimits budget{.bytes_max = 1 << 20, .entries_max = 1000};
    image::LayerWriter writer(std::move(*base::sys::open(layer, O_RDONLY | O_DIRECTORY)), budget);
    (void)image::unpack_archive(bytes.get(), budget, writer);
  }
  const auto beside = base::sys::list_folder(outer);
  if (!beside || beside->size() != 1 || !base::sys::remove_tree(layer)) {
    ::abort();
  }
  return 0;
}
