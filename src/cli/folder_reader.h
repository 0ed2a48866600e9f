// A folder of this machine as a tar stream, made piece by piece as it is read: files, folders and
// links with modes and times, hard links as such, names as the bytes they are. Owners are not
// told, since they mean nothing there. Links are never followed. Pipes, sockets and devices are
// left out and counted. libarchive does the walking and the format. One thread; holds one piece.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "base/error.h"

namespace cli {

using base::Result;

enum class Packing { plain, zstd };

class FolderReader {
 public:
  // The folder's contents, with itself as ".".
  static Result<std::unique_ptr<FolderReader>> open(const std::string& path,
                                                    Packing packing = Packing::plain);
  ~FolderReader();
  FolderReader(const FolderReader&) = delete;
  FolderReader& operator=(const FolderReader&) = delete;

  // A file besides, at the front of the stream; before anything was read.
  Result<void> add_file(const std::string& name, std::string_view content);

  // The next bytes of the stream; 0 at its end. A file that cannot be read is an error naming it.
  Result<size_t> read(std::span<char> buffer);

  [[nodiscard]] int64_t left_out() const { return left_out_; }

 private:
  struct Archives;
  explicit FolderReader(std::string path);
  Result<void> advance();
  Result<void> begin_entry();
  Result<void> copy_data();

  std::string path_;
  std::string made_;  // not yet given out; freeing the archives may still write to it
  std::unique_ptr<Archives> archives_;
  size_t given_ = 0;
  bool in_file_ = false;
  int64_t left_of_file_ = 0;
  bool finished_ = false;
  int64_t left_out_ = 0;
};

}  // namespace cli
