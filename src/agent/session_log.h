// What a session has written, the newest bytes of both streams in order of arrival: a ring in an
// unlinked file of the sandbox's storage with an index of streams and times beside it. Offsets
// count all bytes that ever came in, so they never change their meaning. Owned by the session; loop
// thread only; memory is that of the index. A disk that is full makes the ring as small as what it
// has; if not even that can be written, bytes are left out and counted.
//
// A flood is read from the command into a mapping of the ring, which saves a copy and the file
// system's work at each write. Only system calls write there: where the disk has no page for it
// they fail (EFAULT), and the process gets no SIGBUS.
//
// The file must be read by copying: what a socket was lent of it would change under way.
#pragma once

#include <span>
#include <string_view>

#include "agent/record_index.h"
#include "base/error.h"
#include "base/fd.h"

namespace agent {

using base::Result;

class SessionLog {
 public:
  SessionLog(int spool_folder, uint64_t limit);

  struct Piece {
    uint64_t offset = 0;
    uint64_t size = 0;
    OutputStream stream = OutputStream::out;
    int64_t time_ms = 0;  // when the record came that holds it
  };
  // What of the bytes was added, at its end.
  Piece append(OutputStream stream, std::string_view bytes, int64_t now_ms);
  // Where the next bytes can be read to by a system call, at most `size`; empty where that cannot
  // be offered. Then commit() says how many there are.
  std::span<char> room(size_t size);
  Piece commit(OutputStream stream, size_t size, int64_t now_ms);
  // The mapping is given back: the room cannot be written to, or no flood is expected any more.
  void unmap() { mapping_ = {}; }

  [[nodiscard]] uint64_t start_offset() const;
  [[nodiscard]] uint64_t end_offset() const { return end_; }
  // Bytes of the command that cannot be read any more.
  [[nodiscard]] uint64_t dropped_bytes() const { return start_offset() + left_out_; }
  // How many bytes it can hold now.
  [[nodiscard]] uint64_t capacity() const { return capacity_; }
  // What it takes of the storage.
  [[nodiscard]] uint64_t stored_bytes() const { return end_ < capacity_ ? end_ : capacity_; }

  // Bytes from `offset` on, at least one; start_offset() <= offset < end_offset().
  Result<size_t> read(uint64_t offset, std::span<char> buffer) const;
  // Of what stream and time the byte at `offset` is, and how many after it are of the same record.
  // `hint` is kept by the reader between calls.
  [[nodiscard]] Piece look_up(uint64_t offset, uint64_t& hint) const;

 private:
  class Mapping {
   public:
    Mapping() = default;
    Mapping(int file, size_t size);
    Mapping(const Mapping&) = delete;
    Mapping& operator=(const Mapping&) = delete;
    Mapping& operator=(Mapping&& other) noexcept;
    ~Mapping();
    [[nodiscard]] std::span<char> bytes() const { return bytes_; }

   private:
    std::span<char> bytes_;
  };

  void note_record(OutputStream stream, uint64_t begin, int64_t now_ms);
  bool write_at_end(std::string_view bytes, size_t& written);

  int spool_folder_;
  uint64_t capacity_;
  base::Fd file_;
  Mapping mapping_;  // of the whole ring, or of nothing
  RecordIndex index_;
  uint64_t end_ = 0;
  uint64_t left_out_ = 0;
  bool has_record_ = false;
  LogRecord last_;
};

}  // namespace agent
