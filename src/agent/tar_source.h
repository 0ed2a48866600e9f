// A folder as a tar archive, made piece by piece: the root as "./", then what lies in it in the
// order the kernel gives. Hard links stay links (of at most kLinksMax files at a time), sparse
// files keep their holes, user.* attributes, owners, modes and times go along. Links are not
// followed. Devices, pipes, sockets and what vanishes meanwhile are left out; a file that shrinks
// is filled up with zeros, one that grows ends where it ended. Synchronous calls of one request,
// loop thread only; holds the open folders, one file and a slice of the archive.
#pragma once

#include <sys/stat.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "agent/file_request.h"
#include "agent/folder_stack.h"
#include "base/fd.h"
#include "wire/tar.h"

namespace agent {

class TarSource {
 public:
  static constexpr size_t kSliceBytes = size_t{256} * 1024;
  static constexpr size_t kLinksMax = size_t{64} * 1024;

  explicit TarSource(const FileRequest& request) : request_(request), folders_(".") {}

  Result<void> open();
  // Appends to `out` until it holds kSliceBytes (heads and attributes may exceed it); false at the
  // archive's end. An error cannot be told inside an archive: it has to be broken off.
  Result<bool> next(std::string& out);
  // Whether a device, pipe or socket was met.
  [[nodiscard]] bool left_something_out() const { return left_something_out_; }

 private:
  Result<void> add(std::string& out, const dirent& entry);
  Result<void> add_file(std::string& out, const char* name);
  Result<void> add_folder(std::string& out, const char* name);
  void add_symlink(std::string& out, const char* name);
  Result<void> add_content(std::string& out);
  // Makes a link of a file that was written under another name.
  bool add_hardlink(std::string& out, wire::tar::Entry& entry, const struct stat& status);

  struct Link {
    std::string path;
    nlink_t left;  // names not met yet
  };

  const FileRequest& request_;
  FolderStack folders_;
  bool began_ = false;
  dev_t device_ = 0;  // of the first folder
  bool left_something_out_ = false;
  std::map<std::pair<dev_t, ino_t>, Link> links_;
  base::Fd file_;
  std::vector<wire::tar::Part> parts_;  // of the file, still to be written from part_ on
  size_t part_ = 0;
  uint64_t part_done_ = 0;
  size_t padding_ = 0;
};

// Whether the acting user may read all of a tree, looked at piece by piece: inside an archive it
// could no longer be told.
class ReadableTree {
 public:
  explicit ReadableTree(const FileRequest& request) : request_(request), folders_(request.path) {}
  // True while there is more to look at; permission_denied names what may not be read.
  Result<bool> next();

 private:
  const FileRequest& request_;
  FolderStack folders_;
  bool begun_ = false;
};

}  // namespace agent
