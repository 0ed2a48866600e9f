#include "agent/record_index.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

#include "agent/spool_file.h"

namespace agent {
namespace {

// As it lies in the file.
struct StoredRecord {
  uint64_t offset_and_stream;
  int64_t time_ms;
};
constexpr size_t kStoredBytes = sizeof(StoredRecord);
constexpr size_t kNewestMax = 2 * RecordIndex::kBlockRecords;

StoredRecord stored(const LogRecord& record) {
  return {.offset_and_stream = record.offset << 1U | static_cast<uint64_t>(record.stream),
          .time_ms = record.time_ms};
}

LogRecord loaded(const StoredRecord& record) {
  return {.offset = record.offset_and_stream >> 1U,
          .stream = static_cast<OutputStream>(record.offset_and_stream & 1U),
          .time_ms = record.time_ms};
}

}  // namespace

RecordIndex::RecordIndex(int spool_folder, uint64_t records_max)
    : spool_folder_(spool_folder),
      capacity_((records_max + kBlockRecords - 1) / kBlockRecords * kBlockRecords) {}

bool RecordIndex::write_block() {
  if (!file_) {
    file_ = open_spool_file(spool_folder_);
  }
  std::array<StoredRecord, kBlockRecords> block{};
  std::ranges::transform(std::span(newest_).first(kBlockRecords), block.begin(), stored);
  const auto position = static_cast<off_t>(newest_begin_ % capacity_ * kStoredBytes);
  return ::pwrite(file_.get(), block.data(), sizeof block, position) ==
         static_cast<ssize_t>(sizeof block);
}

void RecordIndex::forget_until(uint64_t number) {
  if (number > first_) {
    first_ = number;
    begin_offset_ = at(first_).offset;
  }
}

void RecordIndex::add(const LogRecord& record) {
  newest_.push_back(record);
  if (newest_.size() < kNewestMax) {
    return;
  }
  const uint64_t next = newest_begin_ + kBlockRecords;
  bool written = write_block();
  if (!written && newest_begin_ > 0 && newest_begin_ < capacity_) {
    // The disk is full: what the file has is used over again.
    capacity_ = newest_begin_;
    written = write_block();
  }
  newest_.erase(newest_.begin(), newest_.begin() + static_cast<std::ptrdiff_t>(kBlockRecords));
  newest_begin_ = next;
  forget_until(written ? std::max(first_, next - std::min(next, capacity_)) : next);
}

LogRecord RecordIndex::at(uint64_t number) const {
  if (number >= newest_begin_) {
    return newest_.at(number - newest_begin_);
  }
  StoredRecord record{};
  const auto position = static_cast<off_t>(number % capacity_ * kStoredBytes);
  [[maybe_unused]] const ssize_t size = ::pread(file_.get(), &record, sizeof record, position);
  return loaded(record);
}

RecordIndex::Found RecordIndex::find(uint64_t offset, uint64_t hint) const {
  const uint64_t last = newest_begin_ + newest_.size() - 1;
  uint64_t low = first_;
  uint64_t high = last;
  // Readers go on where they were: in the same record or the next.
  if (hint >= first_ && hint <= last && at(hint).offset <= offset) {
    low = hint;
    if (hint == last || at(hint + 1).offset > offset) {
      high = hint;
    }
  }
  while (low < high) {
    const uint64_t middle = low + (high - low + 1) / 2;
    if (at(middle).offset <= offset) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return {.record = at(low), .end = low == last ? UINT64_MAX : at(low + 1).offset, .number = low};
}

}  // namespace agent
