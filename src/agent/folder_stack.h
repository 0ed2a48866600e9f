// The open folders on the way down a tree, the deepest last, and the path that leads there: what a
// listing, an archive, a removal and a watch walk with. No link is ever followed. Owned by one
// request; loop thread only; holds a descriptor and 32 KiB a level, at most kLevelsMax levels.
#pragma once

#include <dirent.h>

#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/fd.h"

namespace agent {

using base::Result;

class FolderStack {
 public:
  // Deeper trees than a path can name (4,096 bytes) are made on purpose only.
  static constexpr size_t kLevelsMax = 1024;

  // `path` is that of the first folder, put before all names; "/" is shown as "".
  explicit FolderStack(std::string path = {});

  // Goes one level down; `name` is added to the path but for the first folder's.
  Result<void> enter(base::Fd folder, std::string_view name);
  // Opens the deepest folder's entry `name` and goes there.
  Result<void> enter(const char* name);
  // The next entry of the deepest folder without "." and "..", nullptr at its end.
  const dirent* next();
  void leave();

  [[nodiscard]] bool empty() const { return levels_.empty(); }
  [[nodiscard]] size_t depth() const { return levels_.size(); }
  [[nodiscard]] int folder() const { return ::dirfd(levels_.back().entries.get()); }
  // Of the deepest folder, and of an entry of it.
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string path_of(std::string_view name) const;

 private:
  struct Close {
    void operator()(DIR* folder) const { ::closedir(folder); }
  };
  struct Level {
    std::unique_ptr<DIR, Close> entries;
    size_t path_size;  // of the level above
  };
  std::vector<Level> levels_;
  std::string path_;
};

}  // namespace agent
