// A root file system folder as one layer: copies the tree below `source` (its own file system
// only, following no link) and names the content by a digest over names, metadata and bytes in
// sorted order. Device nodes and sockets are left out.
#pragma once

#include <string>

#include "image/layer_writer.h"

namespace image {

Result<std::string> copy_folder(int source, LayerWriter& writer);

}  // namespace image
