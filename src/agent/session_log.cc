#include "agent/session_log.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "agent/spool_file.h"

namespace agent {
namespace {

// Shorter runs of one stream on average make the index full before the ring.
constexpr uint64_t kBytesPerRecord = 32;
// Bytes of one stream within this time are one record.
constexpr int64_t kRecordMs = 100;
// A full disk does not make the ring smaller than this: it would hold nothing of use.
constexpr uint64_t kCapacityMin = 4096;

// A larger ring is not mapped: its pages would count as the agent's.
constexpr uint64_t kMappedBytesMax = 64ULL * 1024 * 1024;

}  // namespace

SessionLog::Mapping::Mapping(int file, size_t size) {
  void* const start = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (start != MAP_FAILED) {
    bytes_ = {static_cast<char*>(start), size};
  }
}

SessionLog::Mapping& SessionLog::Mapping::operator=(Mapping&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

SessionLog::Mapping::~Mapping() {
  if (!bytes_.empty()) {
    ::munmap(bytes_.data(), bytes_.size());
  }
}

SessionLog::SessionLog(int spool_folder, uint64_t limit)
    : spool_folder_(spool_folder),
      capacity_(limit),
      index_(spool_folder, limit / kBytesPerRecord) {}

uint64_t SessionLog::start_offset() const {
  const uint64_t ring = end_ < capacity_ ? 0 : end_ - capacity_;
  return std::max(ring, index_.begin_offset());
}

bool SessionLog::write_at_end(std::string_view bytes, size_t& written) {
  while (written < bytes.size()) {
    const uint64_t position = end_ % capacity_;
    const auto size =
        static_cast<size_t>(std::min<uint64_t>(bytes.size() - written, capacity_ - position));
    const ssize_t count =
        ::pwrite(file_.get(), bytes.data() + written, size, static_cast<off_t>(position));
    if (count <= 0) {
      if (count < 0 && errno == EINTR) {
        continue;
      }
      return false;
    }
    written += static_cast<size_t>(count);
    end_ += static_cast<uint64_t>(count);
  }
  return true;
}

void SessionLog::note_record(OutputStream stream, uint64_t begin, int64_t now_ms) {
  if (!has_record_ || last_.stream != stream || now_ms - last_.time_ms >= kRecordMs ||
      now_ms < last_.time_ms) {
    last_ = {.offset = begin, .stream = stream, .time_ms = now_ms};
    has_record_ = true;
    index_.add(last_);
  }
}

SessionLog::Piece SessionLog::append(OutputStream stream, std::string_view bytes, int64_t now_ms) {
  if (!file_) {
    file_ = open_spool_file(spool_folder_);
  }
  const uint64_t begin = end_;
  size_t written = 0;
  if (!write_at_end(bytes, written) && end_ < capacity_ && end_ >= kCapacityMin) {
    // The disk is full: the room that the file has is used over again.
    capacity_ = end_;
    write_at_end(bytes, written);
  }
  left_out_ += bytes.size() - written;
  if (written > 0) {
    note_record(stream, begin, now_ms);
  }
  return {.offset = begin, .size = written, .stream = stream, .time_ms = last_.time_ms};
}

std::span<char> SessionLog::room(size_t size) {
  if (mapping_.bytes().empty()) {
    // The file has its whole length first: behind its end a mapping cannot be written to.
    if (!file_ || capacity_ > kMappedBytesMax ||
        ::ftruncate(file_.get(), static_cast<off_t>(capacity_)) != 0) {
      return {};
    }
    mapping_ = Mapping(file_.get(), static_cast<size_t>(capacity_));
    if (mapping_.bytes().empty()) {
      return {};
    }
  }
  const uint64_t position = end_ % capacity_;
  return mapping_.bytes().subspan(
      static_cast<size_t>(position),
      static_cast<size_t>(std::min<uint64_t>(size, capacity_ - position)));
}

SessionLog::Piece SessionLog::commit(OutputStream stream, size_t size, int64_t now_ms) {
  const uint64_t begin = end_;
  end_ += size;
  note_record(stream, begin, now_ms);
  return {.offset = begin, .size = size, .stream = stream, .time_ms = last_.time_ms};
}

Result<size_t> SessionLog::read(uint64_t offset, std::span<char> buffer) const {
  const uint64_t position = offset % capacity_;
  const auto size = static_cast<size_t>(
      std::min({static_cast<uint64_t>(buffer.size()), capacity_ - position, end_ - offset}));
  for (;;) {
    const ssize_t count = ::pread(file_.get(), buffer.data(), size, static_cast<off_t>(position));
    if (count > 0) {
      return static_cast<size_t>(count);
    }
    if (count == 0 || errno != EINTR) {
      return base::fail_errno(count == 0 ? EIO : errno, "read a session's log");
    }
  }
}

SessionLog::Piece SessionLog::look_up(uint64_t offset, uint64_t& hint) const {
  const RecordIndex::Found found = index_.find(offset, hint);
  hint = found.number;
  return {.offset = offset,
          .size = std::min(found.end, end_) - offset,
          .stream = found.record.stream,
          .time_ms = found.record.time_ms};
}

}  // namespace agent
