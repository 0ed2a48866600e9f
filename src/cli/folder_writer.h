// The contents of a tar stream laid out in a folder of this machine. The archive is hostile: no
// entry lands outside the folder (names are taken apart, parents are opened by descriptor without
// following any link), none can make a setuid file, a device or a pipe, none writes through a link
// that was there or that it made itself. A file takes its place when it is whole. Owners are ours;
// modes as the umask allows. One thread; remembers the folders' modes and times to the end.
#pragma once

#include <sys/types.h>
#include <time.h>

#include <map>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/fd.h"

struct archive;
struct archive_entry;

namespace cli {

using base::Result;

class FolderWriter {
 public:
  // `path` is made when it is not there; its parent must be.
  static Result<FolderWriter> open(const std::string& path);

  // Reads `from`, opened on a tar stream, to its end.
  Result<void> take_all(::archive* from);

  [[nodiscard]] int64_t left_out() const { return left_out_; }

 private:
  struct Late {  // of a folder: set when nothing is put into it any more
    mode_t mode = 0;
    timespec modified{};
  };
  explicit FolderWriter(base::Fd root);

  Result<void> take(::archive* from, ::archive_entry* entry);
  Result<void> take_folder(const std::string& path, const Late& late);
  Result<void> take_file(::archive* from, ::archive_entry* entry, const std::string& path);
  Result<void> take_symlink(::archive_entry* entry, const std::string& path);
  Result<void> take_hardlink(const std::string& target, const std::string& path);
  // The folder that `path` lies in, made where it is missing; its descriptor is kept for the next.
  Result<int> parent_of(const std::string& path);
  Result<base::Fd> open_folder(const std::string& path);
  Result<void> finish_folders();

  base::Fd root_;
  mode_t mask_;
  std::string parent_path_;
  base::Fd parent_;
  std::map<std::string, Late> folders_;
  int64_t left_out_ = 0;
};

// The parts of an entry's name joined again, "" for the folder itself; archive_invalid for an
// absolute one, "..", and what no path can hold.
Result<std::string> clean_entry_path(std::string_view name);

}  // namespace cli
