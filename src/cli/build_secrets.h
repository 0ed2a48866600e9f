// Secrets and ssh keys of a build as the command line has them, read on this machine.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/error.h"

namespace cli {

// The headers that carry them: none where nothing is given. `secrets`: "id=ID,src=FILE" or
// "id=ID,env=VARIABLE"; `keys`: "ID=FILE" of a private key. invalid_field for any other form, a
// variable that is not there, and more than the gateway takes; io for a file that cannot be read.
base::Result<std::vector<std::pair<std::string, std::string>>> build_secret_headers(
    const std::vector<std::string>& secrets, const std::vector<std::string>& keys);

}  // namespace cli
