// K=V lists of the command line as JSON objects. Values of --env may be secrets: they are in no
// error message. Reads the named files and the process environment.
#pragma once

#include <string>
#include <vector>

#include "wire/json.h"

namespace cli {

using base::Result;

// Files first, then the words; the last of a name wins. A word without '=' takes the value from
// the process environment. Files: K=V lines, empty lines and those that begin with # are skipped.
Result<wire::json::Object> read_variables(const std::vector<std::string>& words,
                                          const std::vector<std::string>& files);
Result<wire::json::Object> parse_labels(const std::vector<std::string>& words);

}  // namespace cli
