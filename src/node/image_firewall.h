// Keeps the image helper's registry client off addresses that a registry has no business to send
// it to: link-local ones (cloud metadata) for all its ids, and this machine's loopback but for
// name lookups, unless the operator named a loopback registry (the helper then uses another id).
#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"

namespace node {

// Makes the nftables table PREFIX_images afresh. Runs nft; while the node starts only.
base::Result<void> keep_helper_local(const std::string& prefix, uint32_t id_base);
// Deletes it.
base::Result<void> forget_helper(const std::string& prefix);

}  // namespace node
