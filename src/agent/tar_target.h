// The folder that an uploaded archive is laid out in, member by member. No member is placed
// outside of it: paths are resolved by the kernel beneath its descriptor (RESOLVE_BENEATH), so
// neither "..", nor links in it, nor a process that swaps folders meanwhile lead out. Merges: what
// is there and not in the archive stays; a file takes a file's place at once; a file never takes a
// folder's place, nor a folder a file's. Nothing is seen half written under its name: a new folder
// is filled under a hidden name, a file in an old one is made without a name.
//
// Synchronous calls of one request, made with the acting user's rights (ActingAs); loop thread
// only. The contents of small files in new folders are written by a thread beside it (SmallFiles);
// a new folder gets its name after them. Holds two folders, one file, what SmallFiles holds, and
// the modes and times of at most kLateFoldersMax folders. An upload that ends early keeps what was
// whole.
#pragma once

#include <sys/stat.h>
#include <time.h>

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/file_request.h"
#include "agent/small_files.h"
#include "base/fd.h"
#include "wire/tar_reader.h"

namespace agent {

struct TarCounts {
  uint64_t files = 0;
  uint64_t folders = 0;
  uint64_t links = 0;
  uint64_t bytes = 0;
};

class TarTarget {
 public:
  static constexpr size_t kLateFoldersMax = size_t{64} * 1024;

  explicit TarTarget(const FileRequest& request);
  TarTarget(const TarTarget&) = delete;
  TarTarget& operator=(const TarTarget&) = delete;

  // Finds the folder; one that is not there is made. The rights are the caller's business here
  // and below.
  Result<void> open();
  // archive_invalid for a member that may not be, naming it.
  Result<void> begin(const wire::tar::Entry& entry);
  Result<void> write(uint64_t offset, std::string_view bytes);
  Result<void> end(const wire::tar::Entry& entry);
  // The archive was whole.
  Result<void> finish();
  // It was not: removes the half file and shows the rest. Also after a failed finish.
  void abandon();

  [[nodiscard]] const TarCounts& counts() const { return counts_; }
  // Waits for what is still made, so that what is counted and placed is all there is.
  void settle();
  // The first members that were placed, a line each.
  [[nodiscard]] const std::string& placed() const { return placed_; }

 private:
  // A new folder that is filled under another name.
  struct Stage {
    base::Fd folder;   // that it lies in; invalid: the target itself
    std::string name;  // final
    std::string temporary;
  };
  // How the file that is being written gets its name.
  enum class Naming { direct, unnamed, temporary };
  // The folder that was used last.
  struct Place {
    std::string path;
    base::Fd folder;
  };
  struct LateFolder {
    std::string path;
    mode_t mode = 0;
    std::optional<wire::tar::Time> modified;
    int64_t uid = 0;
    int64_t gid = 0;
  };

  static bool is_beneath(std::string_view path, std::string_view folder);
  static std::array<timespec, 2> file_times(wire::tar::Time modified);
  Result<base::Fd> open_beneath(const std::string& path, int flags, uint64_t resolve = 0) const;
  Result<int> parent_of(const std::string& path);
  Result<base::Fd> make_parents(const std::string& path);
  [[nodiscard]] std::string actual(const std::string& path) const;
  [[nodiscard]] bool is_staged(const std::string& path) const;
  Result<void> make_folder(const std::string& path, const LateFolder& late);
  Result<void> begin_stage(const std::string& name);
  Result<void> finish_stage(Stage& stage, int folder);
  Result<void> finish_new_folder();
  Result<void> apply_late(const std::string& beneath);
  Result<void> place_folder(const wire::tar::Entry& entry);
  Result<void> place_symlink(const wire::tar::Entry& entry);
  Result<void> place_hardlink(const wire::tar::Entry& entry);
  Result<void> open_file(const wire::tar::Entry& entry);
  Result<void> name_file();
  Result<void> find_place();
  [[nodiscard]] const std::string& actual_name() const;
  Result<void> replace_by(const std::string& temporary);
  Result<struct stat> check_replaceable() const;
  Result<void> set_attributes(int fd, const wire::tar::Entry& entry) const;
  Result<void> set_owner(int fd, int64_t uid, int64_t gid) const;
  [[nodiscard]] mode_t allowed_mode(uint32_t mode) const;
  std::string temporary_name();
  void note_placed();
  [[nodiscard]] bool may_hand_over(const wire::tar::Entry& entry) const;
  Result<void> end_small_file();
  Result<void> wait_for_small_files();
  void remove_unwritten(const SmallFile& file);
  [[nodiscard]] std::unexpected<base::Error> failed(int errno_value) const;
  [[nodiscard]] std::unexpected<base::Error> refused(std::string_view why) const;

  const FileRequest& request_;
  base::Fd root_;
  std::optional<Stage> root_stage_;  // the target itself is new
  std::optional<Stage> stage_;       // a new folder right in it
  Place place_;
  SmallFiles small_files_;
  std::optional<SmallFile> small_file_;  // the current one
  std::vector<LateFolder> late_;
  std::string temporary_base_;
  uint64_t temporaries_ = 0;

  std::string member_;  // clean path of the current one
  int folder_ = -1;     // that it lies in: place_ or root_
  std::string name_;
  base::Fd file_;
  Naming naming_ = Naming::direct;
  std::string temporary_;  // of naming_ temporary
  mode_t mode_ = 0;

  TarCounts counts_;
  std::string placed_;
  size_t placed_count_ = 0;
};

// Takes the next bytes of an archive: all members that they hold are placed.
Result<void> place_members(wire::tar::Reader& reader, std::string_view bytes, TarTarget& target);

}  // namespace agent
