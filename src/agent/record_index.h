// Which stream the bytes of a session's log belong to and when they came: one record for each run
// of bytes of one stream. The newest records are in memory, older ones in a ring in an unlinked
// file of the sandbox's storage, so that memory is bounded whatever the command writes. Owned by
// the log; loop thread only. When the ring is full the oldest records go; a full disk makes the
// ring smaller.
#pragma once

#include <cstdint>
#include <vector>

#include "base/fd.h"

namespace agent {

enum class OutputStream : uint8_t { out, err };

struct LogRecord {
  uint64_t offset = 0;  // of its first byte
  OutputStream stream = OutputStream::out;
  int64_t time_ms = 0;  // since 1970
};

class RecordIndex {
 public:
  // Records that one write to the file takes.
  static constexpr uint64_t kBlockRecords = 128;

  // `records_max` is rounded up to blocks.
  RecordIndex(int spool_folder, uint64_t records_max);

  // Records come in the order of their offsets.
  void add(const LogRecord& record);
  // The first byte whose record is known.
  [[nodiscard]] uint64_t begin_offset() const { return begin_offset_; }

  struct Found {
    LogRecord record;
    uint64_t end = 0;     // where the next one begins; UINT64_MAX for the last
    uint64_t number = 0;  // a good `hint` for what follows
  };
  // The record that holds the byte at `offset`, which is at or behind begin_offset(). `hint`: a
  // number found before.
  [[nodiscard]] Found find(uint64_t offset, uint64_t hint) const;

 private:
  [[nodiscard]] LogRecord at(uint64_t number) const;
  bool write_block();
  void forget_until(uint64_t number);

  int spool_folder_;
  uint64_t capacity_;  // of the file
  base::Fd file_;
  std::vector<LogRecord> newest_;
  uint64_t newest_begin_ = 0;  // number of the first in memory
  uint64_t first_ = 0;         // number of the oldest that is known
  uint64_t begin_offset_ = 0;
};

}  // namespace agent
