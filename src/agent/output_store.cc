#include "agent/output_store.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "base/random.h"

namespace agent {
namespace {

constexpr uint64_t kHeadBytes = kOutputBytesMax / 4;
constexpr uint64_t kRingBytes = kOutputBytesMax - kHeadBytes;

// Where the file holds the stream's byte `offset`, and how many follow it without a gap.
struct Place {
  uint64_t position = 0;
  uint64_t room = 0;
};
Place place_of(uint64_t offset) {
  if (offset < kHeadBytes) {
    return {.position = offset, .room = kHeadBytes - offset};
  }
  const uint64_t in_ring = (offset - kHeadBytes) % kRingBytes;
  return {.position = kHeadBytes + in_ring, .room = kRingBytes - in_ring};
}

}  // namespace

bool OutputStore::open_file() {
  const int folder = spool_folder_ >= 0 ? spool_folder_ : AT_FDCWD;
  const char* path = spool_folder_ >= 0 ? "." : "/tmp";
  file_ = base::Fd(::openat(folder, path, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!file_ && (errno == EOPNOTSUPP || errno == EISDIR)) {
    base::KernelRandom random;
    const std::string name = base::cat(path, "/.", base::new_id(random, "output"));
    file_ = base::Fd(
        ::openat(folder, name.c_str(), O_CREAT | O_EXCL | O_RDWR | O_NOFOLLOW | O_CLOEXEC, 0600));
    ::unlinkat(folder, name.c_str(), 0);
  }
  return file_.valid();
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
    if (!open_file() || !append_to_file(memory_)) {
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
