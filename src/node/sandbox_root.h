// A sandbox's root: the layers of its image, read-only and id-mapped, under its own upper layer.
// Stateless; the node's thread; failures name the step.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/fd.h"
#include "node/place.h"

namespace node {

// The overlay, detached, with /etc/hosts and its like in place. `layers`: absolute, top first.
base::Result<base::Fd> make_sandbox_root(Place& place, const std::vector<std::string>& layers,
                                         const std::string& images_folder,
                                         const std::string& hostname,
                                         const std::map<std::string, std::string>& hosts);

}  // namespace node
