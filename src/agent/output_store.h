// What is kept of one output stream of a command: all of it, or the first quarter and the last
// three quarters of a limit. Up to kMemoryBytesMax is held in memory, more in an unlinked file of
// the sandbox's storage. Owned by the run; loop thread only. A full disk ends the keeping, not the
// command: what comes later counts as dropped.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/fd.h"

namespace agent {

using base::Result;

// The public contract's limit of both streams of one command together.
inline constexpr uint64_t kOutputBytesMax = 32ULL * 1024 * 1024;

class OutputStore {
 public:
  static constexpr size_t kMemoryBytesMax = size_t{64} * 1024;

  // No limit but the sandbox's storage.
  static constexpr uint64_t kUnlimited = 1ULL << 62U;

  // `spool_folder`: where the file is made; below 0: /tmp.
  explicit OutputStore(int spool_folder, uint64_t limit = kOutputBytesMax)
      : spool_folder_(spool_folder), limit_(limit) {}

  void add(std::string_view bytes);
  // Moves at most `bytes_max` from a pipe to the file without passing them through the agent's
  // memory. 0: not possible now or at all, read() and add() tell.
  size_t take_from(int pipe, size_t bytes_max);
  // Bytes the command wrote.
  [[nodiscard]] uint64_t total() const { return total_; }

  // Ranges of the stream to show when `share` bytes of it are to be shown: all of it as the
  // first, or its first quarter and last three quarters.
  struct Range {
    uint64_t begin = 0;
    uint64_t size = 0;
  };
  [[nodiscard]] std::array<Range, 2> ranges(uint64_t share) const;
  // Bytes that can be shown at all.
  [[nodiscard]] uint64_t kept() const { return end_ < limit_ ? end_ : limit_; }
  // Some bytes from that offset of a range; never 0 of a non-empty range without an error.
  Result<size_t> read(uint64_t offset, std::span<char> buffer) const;
  [[nodiscard]] bool spooled() const { return file_.valid(); }
  // Of an unlimited store: the file as it is, to be sent; below 0 while all is in memory.
  [[nodiscard]] int file() const { return file_.get(); }

 private:
  // Where the file holds the stream's byte `offset`, and how many follow it without a gap.
  struct Place {
    uint64_t position = 0;
    uint64_t room = 0;
  };
  [[nodiscard]] Place place_of(uint64_t offset) const;
  // Writes at the stream's offset end_ and moves it; false when the disk is full.
  bool append_to_file(std::string_view bytes);

  int spool_folder_;
  uint64_t limit_;
  std::string memory_;
  base::Fd file_;
  uint64_t total_ = 0;
  uint64_t end_ = 0;     // of what was kept; total_ unless frozen_
  bool frozen_ = false;  // the disk was full
};

// How much of each stream is shown when both together are at most kOutputBytesMax: the smaller
// one first, so a short stream is always whole.
struct Shares {
  uint64_t out = 0;
  uint64_t err = 0;
};
Shares share_output(uint64_t out_size, uint64_t err_size);

}  // namespace agent
