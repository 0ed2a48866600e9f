#include "node/sandbox_root.h"

#include <fcntl.h>

#include "base/sys.h"
#include "jail/mounts.h"
#include "node/root_files.h"

namespace node {
namespace {

using base::Fd;
using base::Result;

// One layer through the place's own view of the images folder, or, for a layer that lies
// elsewhere (a plain folder as an image), a view of its own.
Result<Fd> open_layer(const Place& place, const std::string& layer,
                      const std::string& images_folder) {
  if (layer.starts_with(images_folder + "/")) {
    auto inside = base::sys::open_beneath(
        place.layers.get(), layer.substr(images_folder.size() + 1), O_PATH | O_DIRECTORY);
    if (inside) {
      return inside;
    }
  }
  return jail::clone_id_mapped(layer, place.shell->user_namespace().get());
}

}  // namespace

Result<Fd> make_sandbox_root(Place& place, const std::vector<std::string>& layers,
                             const std::string& images_folder, const std::string& hostname,
                             const std::map<std::string, std::string>& hosts) {
  std::vector<Fd> opened;
  std::vector<int> lower;
  for (const std::string& layer : layers) {
    ASSIGN_OR_RETURN(Fd fd, open_layer(place, layer, images_folder));
    lower.push_back(fd.get());
    opened.push_back(std::move(fd));
  }
  if (lower.empty()) {
    return base::fail(base::ErrorCode::internal, "an image without layers");
  }
  const int area = place.area_mount.get();
  const RootFiles files{
      .owner = place.owner, .hostname = hostname, .address = place.address, .hosts = hosts};
  ASSIGN_OR_RETURN(const EtcState etc, finish_root_files(area, lower.data(), lower.size(), files));
  ASSIGN_OR_RETURN(const Fd upper, base::sys::open_at(area, "upper", O_PATH | O_DIRECTORY));
  ASSIGN_OR_RETURN(const Fd work, base::sys::open_at(area, "work", O_PATH | O_DIRECTORY));
  ASSIGN_OR_RETURN(Fd root, jail::make_overlay(lower, upper.get(), work.get()));
  if (etc == EtcState::unusual) {
    write_root_files(root.get(), files);
  }
  return root;
}

}  // namespace node
