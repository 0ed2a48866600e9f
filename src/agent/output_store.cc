#include "agent/output_store.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "agent/spool_file.h"

namespace agent {

OutputStore::Place OutputStore::place_of(uint64_t offset) const {
  const uint64_t head = limit_ / 4;
  const uint64_t ring = limit_ - head;
  if (offset < head) {
    return {.position = offset, .room = head - offset};
  }
  const uint64_t in_ring = (offset - head) % ring;
  return {.position = head + in_ring, .room = ring - in_ring};
}

bool OutputStore::append_to_file(std::string_view bytes) {
  while (!bytes.empty()) {
    const Place place = place_of(end_);
    const auto size = static_cast<size_t>(std::min<uint64_t>(bytes.size(), place.room));
    const ssize_t count =
        ::pwrite(file_.get(), bytes.data(), size, static_cast<off_t>(place.position));
    if (count <= 0) {
      if (count < 0 && errno == EINTR) {
        continue;
      }
      return false;
    }
    end_ += static_cast<uint64_t>(count);
    bytes.remove_prefix(static_cast<size_t>(count));
  }
  return true;
}

void OutputStore::add(std::string_view bytes) {
  total_ += bytes.size();
  if (frozen_) {
    return;
  }
  if (!file_) {
    if (memory_.size() + bytes.size() <= kMemoryBytesMax) {
      memory_ += bytes;
      end_ = memory_.size();
      return;
    }
    end_ = 0;
    file_ = open_spool_file(spool_folder_);
    if (!file_ || !append_to_file(memory_)) {
      // Nothing fits outside: memory keeps what it holds.
      file_.reset();
      end_ = memory_.size();
      frozen_ = true;
      return;
    }
    memory_ = std::string();
  }
  frozen_ = !append_to_file(bytes);
}

size_t OutputStore::take_from(int pipe, size_t bytes_max) {
  if (!file_ || frozen_) {
    return 0;
  }
  const Place place = place_of(end_);
  auto position = static_cast<off_t>(place.position);
  const auto size = static_cast<size_t>(std::min<uint64_t>(bytes_max, place.room));
  const ssize_t count =
      ::splice(pipe, nullptr, file_.get(), &position, size, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
  if (count <= 0) {
    return 0;
  }
  end_ += static_cast<uint64_t>(count);
  total_ += static_cast<uint64_t>(count);
  return static_cast<size_t>(count);
}

std::array<OutputStore::Range, 2> OutputStore::ranges(uint64_t share) const {
  if (end_ <= share) {
    return {Range{.begin = 0, .size = end_}, Range{.begin = end_, .size = 0}};
  }
  const uint64_t head = share / 4;
  const uint64_t tail = share - head;
  return {Range{.begin = 0, .size = head}, Range{.begin = end_ - tail, .size = tail}};
}

Result<size_t> OutputStore::read(uint64_t offset, std::span<char> buffer) const {
  if (!file_) {
    const size_t size =
        std::min(buffer.size(), memory_.size() - std::min(memory_.size(), size_t{offset}));
    std::ranges::copy(std::string_view(memory_).substr(offset, size), buffer.begin());
    return size;
  }
  const Place place = place_of(offset);
  const auto size = static_cast<size_t>(std::min<uint64_t>(buffer.size(), place.room));
  for (;;) {
    const ssize_t count =
        ::pread(file_.get(), buffer.data(), size, static_cast<off_t>(place.position));
    if (count > 0) {
      return static_cast<size_t>(count);
    }
    if (count == 0 || errno != EINTR) {
      return base::fail_errno(count == 0 ? EIO : errno, "read spooled output");
    }
  }
}

Shares share_output(uint64_t out_size, uint64_t err_size) {
  if (out_size + err_size <= kOutputBytesMax) {
    return {.out = out_size, .err = err_size};
  }
  const uint64_t smaller = std::min({out_size, err_size, kOutputBytesMax / 2});
  const uint64_t larger = kOutputBytesMax - smaller;
  return out_size <= err_size ? Shares{.out = smaller, .err = larger}
                              : Shares{.out = larger, .err = smaller};
}

}  // namespace agent
