#include "wire/entity_tag.h"

#include <algorithm>

#include "base/text.h"

namespace wire::http {

bool names_tag(std::string_view if_none_match, std::string_view tag) {
  return std::ranges::any_of(base::split(if_none_match, ','), [&](std::string_view part) {
    part = base::trim(part);
    if (part.starts_with("W/")) {
      part.remove_prefix(2);
    }
    return part == tag || part == "*";
  });
}

}  // namespace wire::http
