// Paths as a shell's words have them: `*`, `?`, `[...]`, a leading `~`, `\` for what follows. For
// images without a shell. Pure but for expand(), which reads folders.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace agent {

// More are not collected; the rest is left out.
inline constexpr size_t kPatternPathsMax = 65'536;

// One component against one name. A leading '.' has to be written.
bool fits_pattern(std::string_view pattern, std::string_view name);
// The paths that are there, sorted; where none is, the pattern's own text.
std::vector<std::string> expand_pattern(std::string_view pattern, std::string_view home);

}  // namespace agent
