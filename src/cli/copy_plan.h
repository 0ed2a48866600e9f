// Which way a copy goes and what the other side is called: the pure part of `cp`.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"

namespace cli {

using base::Result;

struct RemotePath {
  std::string id;
  std::string path;
};

// "ID:/path"; nullopt for a path of this machine (also when a '/' comes before the colon).
std::optional<RemotePath> parse_remote_path(std::string_view text);

struct CopyPlan {
  bool upload = false;
  std::string local;  // "-" for standard input or output
  RemotePath remote;
};
enum class CopyKind { file, folder };
// A destination that ends in '/' gets the source's name (a folder's own contents for "." and
// ".."). invalid_field unless exactly one side is in a sandbox.
Result<CopyPlan> plan_copy(const std::string& source, const std::string& destination,
                           CopyKind kind);
// What is behind the last '/'.
std::string base_name(std::string_view path);
// The name a copy of that folder gets: "" when only its contents are meant ("x/.", "..", "/").
std::string folder_name(std::string_view path);

}  // namespace cli
