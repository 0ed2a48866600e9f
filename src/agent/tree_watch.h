// What changes in a folder, or in a whole tree, as the kernel tells it by inotify. Owned by one
// request; loop thread only; watches at most kFoldersMax folders. What the kernel drops, and what
// is beyond that number, is told as an overflow: the client then looks for itself.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "agent/file_request.h"
#include "base/fd.h"

struct inotify_event;

namespace agent {

struct FileChange {
  enum class Kind { created, modified, attributes, deleted, moved, overflow, gone };
  Kind kind = Kind::modified;
  std::string path;
  std::string from;  // of `moved`
  bool is_folder = false;
  bool operator==(const FileChange&) const = default;
};

// "created" and so on.
std::string_view to_string(FileChange::Kind kind);

class TreeWatch {
 public:
  // One watch costs about 1 KiB of kernel memory; the host counts them for all sandboxes together.
  static constexpr size_t kFoldersMax = 8192;

  explicit TreeWatch(const FileRequest& request) : request_(request) {}
  TreeWatch(const TreeWatch&) = delete;
  TreeWatch& operator=(const TreeWatch&) = delete;

  // overloaded where the host has no more instances or watches, invalid_field for a tree of more
  // than kFoldersMax folders.
  Result<void> begin();
  // Readable when there is something to take.
  [[nodiscard]] int fd() const { return inotify_.get(); }
  // What happened since; with `gone` at the end when the folder itself is no longer there.
  std::vector<FileChange> take();
  [[nodiscard]] size_t folders() const { return paths_.size(); }

 private:
  Result<void> add(int folder, const std::string& path);
  // The folder and, of a recursive watch, all beneath it. `found`: told of all that is in it.
  Result<void> add_tree(const std::string& path, std::vector<FileChange>* found);
  void note(const inotify_event& event, std::string_view name, std::vector<FileChange>& out);
  // Something left the tree: its watches end.
  void forget_left(std::vector<FileChange>& out);
  void rename_beneath(const std::string& from, const std::string& to);

  const FileRequest& request_;
  std::string root_;       // without a slash at its end
  std::string only_name_;  // of a file that is watched by its folder
  base::Fd inotify_;
  std::map<int, std::string> paths_;  // of the watched folders
  int root_id_ = -1;
  uint32_t move_cookie_ = 0;  // of a name that left and has not come again yet
  size_t move_index_ = 0;     // its change
};

}  // namespace agent
