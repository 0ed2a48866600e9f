// Reads tar archives without I/O: bytes in, members and their data out. Takes v7, ustar, GNU (long
// names, old sparse files, base-256 numbers) and PAX (path, linkpath, size, uid, gid, mtime,
// SCHILY.xattr.*, GNU.sparse 0.0, 0.1 and 1.0). Strict where two readers could disagree: a wrong
// checksum, a number that is none, an unknown kind of member, bytes behind the end are
// archive_invalid and name the member. Holds one member's head: at most kExtensionBytesMax of an
// extended header and kPartsMax parts. Says nothing about where a path leads: that is the
// business of who writes it.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "wire/tar_records.h"

namespace wire::tar {

// Attributes of one file fit (the kernel takes 64 KiB for all names and each value).
inline constexpr size_t kExtensionBytesMax = size_t{1024} * 1024;
class Reader {
 public:
  enum class Found {
    more_input,   // all of the input was taken
    entry,        // entry() is a new member
    data,         // a piece of its content
    entry_end,    // its content is whole
    archive_end,  // what follows may only be zeros
  };
  struct Step {
    Found found = Found::more_input;
    size_t consumed = 0;    // of the input, data included
    std::string_view data;  // a view into the input
    uint64_t offset = 0;    // where the data stands in the file
  };
  Result<Step> next(std::string_view input);
  // Valid from `entry` to the next one.
  [[nodiscard]] const Entry& entry() const { return entry_; }
  // The input has ended: fine only behind the archive's end.
  [[nodiscard]] Result<void> end_of_input() const;

 private:
  enum class State { head, extension, skipped, sparse_blocks, sparse_map, data, padding, ended };
  // The next whole block, or nullptr after all of the input was taken.
  const char* take_block(std::string_view input, size_t& consumed);
  // One state's turn: nullopt to go on with the next one.
  Result<std::optional<Step>> turn(std::string_view input, size_t& consumed);
  Result<std::optional<Step>> pass(std::string_view input, size_t& consumed);
  Result<std::optional<Step>> give_data(std::string_view input, size_t& consumed);
  Result<void> read_head(const char* block);
  Result<void> begin_entry(const char* block, char type);
  Result<void> begin_content(const char* block, char type, uint64_t stored);
  Result<void> begin_extension(char type, uint64_t size);
  Result<void> finish_extension();
  Result<void> take_records(Overrides& out) const;
  Result<void> read_old_parts(const char* fields, size_t count);
  Result<void> read_map_block(const char* block);
  Result<void> check_parts();
  void begin_data(uint64_t stored);
  template <typename... Words>
  [[nodiscard]] std::unexpected<base::Error> broken(const Words&... words) const;

  State state_ = State::head;
  std::array<char, kBlockBytes> partial_{};
  size_t partial_size_ = 0;
  Entry entry_;
  bool entry_ready_ = false;    // to be told
  bool content_whole_ = false;  // to be told
  uint64_t left_ = 0;           // bytes still to come of the state's content
  size_t padding_ = 0;          // behind them
  char extension_type_ = 0;     // which header `extension_` is of
  std::string extension_;
  std::optional<std::string> long_path_;  // GNU
  std::optional<std::string> long_target_;
  Overrides global_;
  std::optional<Overrides> local_;
  size_t part_ = 0;  // that data is given of
  uint64_t part_done_ = 0;
  uint64_t offset_ = 0;  // of plain content
  std::string number_;   // of a map in the data, not yet whole
  std::optional<uint64_t> map_count_;
  std::optional<uint64_t> map_offset_;
};

}  // namespace wire::tar
