// What an SFTP client has open. Owned by its server; one thread. Bounds: kHandlesMax in all (fewer
// where the process may not have so many descriptors), kFoldersMax of them folders, whose reading
// buffers are the C library's.
#pragma once

#include <dirent.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"

namespace agent::sftp {

struct CloseFolder {
  void operator()(DIR* folder) const { ::closedir(folder); }
};

// One of both.
struct Handle {
  base::Fd file;
  std::unique_ptr<DIR, CloseFolder> folder;

  [[nodiscard]] bool is_open() const { return file.valid() || folder != nullptr; }
  [[nodiscard]] int descriptor() const { return folder ? ::dirfd(folder.get()) : file.get(); }
};

class Handles {
 public:
  static constexpr size_t kHandlesMax = 1000;
  static constexpr size_t kFoldersMax = 64;

  Handles();
  [[nodiscard]] size_t limit() const { return limit_; }
  [[nodiscard]] bool has_room_for_file() const { return open_ < limit_; }
  [[nodiscard]] bool has_room_for_folder() const {
    return has_room_for_file() && folders_ < kFoldersMax;
  }
  // There must be room. The name that the client knows it by.
  std::string add(Handle handle);
  // Null for a name that is none of ours.
  Handle* find(std::string_view name);
  // errno of the close; EBADF for a name that is none of ours.
  int close(std::string_view name);

 private:
  std::vector<Handle> handles_;
  size_t limit_;
  size_t open_ = 0;
  size_t folders_ = 0;
};

}  // namespace agent::sftp
