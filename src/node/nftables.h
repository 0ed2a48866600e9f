// Rules of nftables, each load one transaction. Runs nft: only while the node starts or stops.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

namespace node {

base::Result<void> load_rules(std::string_view rules);
// Rules that take away a table of the family inet, whether it is there or not.
std::string without_table(std::string_view name);

}  // namespace node
