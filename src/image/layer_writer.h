// Lays the entries of one layer out in a folder so that overlayfs shows what the image means: our
// own placing, in which no entry can reach outside the folder. Links in a parent path are resolved
// as if the folder were the root, step by step without following any. A later entry wins over an
// earlier one; whiteouts hide lower layers only. Used by one thread; limits in LayerLimits; a
// broken rule is image_invalid and names the entry.
#pragma once

#include <time.h>

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "image/failure.h"

namespace image {

using base::Fd;

inline constexpr int64_t kIdMax = 65535;  // a sandbox has 65,536 ids

struct LayerLimits {
  int64_t bytes_max = int64_t{32} << 30;  // unpacked, all layers of an image
  int64_t entries_max = 4'000'000;
};

enum class EntryKind { file, folder, symlink, hardlink, fifo, device };

struct Entry {
  std::string path;
  EntryKind kind = EntryKind::file;
  uint32_t mode = 0;  // with setuid, setgid and sticky
  int64_t uid = 0;
  int64_t gid = 0;
  int64_t size = 0;
  timespec modified{};
  std::string target;                                           // of links
  std::vector<std::pair<std::string, std::string>> attributes;  // extended ones, all of them
};

// The content of one file, in pieces.
class Content {
 public:
  struct Piece {
    int64_t offset = 0;
    std::string_view bytes;
  };
  virtual ~Content() = default;
  virtual Result<std::optional<Piece>> next() = 0;
};

class LayerWriter {
 public:
  // `root`: the layer's fresh folder, open for reading. The budget is shared by an image's layers.
  LayerWriter(Fd root, LayerLimits& budget) : root_(std::move(root)), budget_(budget) {}

  Result<void> place(const Entry& entry, Content& content);
  // Sets what entries placed later would have disturbed (the times of folders).
  Result<void> finish();
  // Folders whose lower content is hidden; they need trusted.overlay.opaque, which this program
  // may not set. Relative, "" is the layer's root.
  [[nodiscard]] std::vector<std::string> opaque_folders() const;
  // Folders that no entry describes, made because something lies in them. Where a lower layer has
  // the same folder, its owner and mode are meant.
  [[nodiscard]] std::vector<std::string> implied_folders() const;
  [[nodiscard]] int64_t bytes() const { return bytes_; }
  [[nodiscard]] int64_t devices_dropped() const { return devices_dropped_; }

 private:
  struct Parent {
    Fd folder;
    std::string path;  // resolved: no link in it
  };
  Result<Parent> open_parent(const std::string& path);
  Result<Parent> walk(const std::string& path);
  Result<Fd> enter_or_make(int folder, const std::string& name, const std::string& path);
  Result<void> clear_name(const Parent& parent, const std::string& name, bool keep_folder);
  Result<void> place_whiteout(const Parent& parent, const std::string& hidden);
  Result<void> place_folder(const Parent& parent, const std::string& name, const Entry& entry);
  Result<void> place_file(const Parent& parent, const std::string& name, const Entry& entry,
                          Content& content);
  Result<void> place_hardlink(const Parent& parent, const std::string& name, const Entry& entry);
  Result<void> place_special(const Parent& parent, const std::string& name, const Entry& entry);
  Result<void> place_root(const Entry& entry);
  Result<void> write_content(int fd, const Entry& entry, Content& content);
  Result<void> charge(int64_t bytes, const std::string& path);

  Fd root_;
  LayerLimits& budget_;
  std::set<std::string> opaque_;
  std::set<std::string> implied_;
  std::map<std::string, timespec> folder_times_;
  int64_t bytes_ = 0;
  int64_t devices_dropped_ = 0;
};

// `path` without empty and "." parts, "" for the root; image_invalid for "..", and for parts or
// paths longer than Linux takes.
Result<std::string> clean_path(std::string_view path);

}  // namespace image
