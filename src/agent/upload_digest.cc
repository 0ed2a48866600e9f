#include "agent/upload_digest.h"

#include <algorithm>

namespace agent {

UploadDigest::~UploadDigest() {
  if (thread_.started()) {
    over_.store(true, std::memory_order_relaxed);
    added_.fetch_add(1, std::memory_order_release);
    added_.notify_one();
    thread_.join();
  }
}

void UploadDigest::add(std::string_view piece) {
  const bool is_early = !thread_.started() && alone_bytes_ + piece.size() < kAloneBytesMax;
  if (is_early || !thread_.start<&UploadDigest::work>(*this)) {
    alone_bytes_ = std::min(alone_bytes_ + piece.size(), kAloneBytesMax);
    hash_.add(piece);
    return;
  }
  wait_for_room(kQueueMax);
  const uint32_t added = added_.load(std::memory_order_relaxed);
  queue_[added % kQueueMax] = piece;
  added_.store(added + 1, std::memory_order_release);
  added_.notify_one();
}

std::string UploadDigest::finish() {
  wait_for_room(1);
  return hash_.finish();
}

// Until fewer than that many pieces are with the thread.
void UploadDigest::wait_for_room(uint32_t queue_max) {
  const uint32_t added = added_.load(std::memory_order_relaxed);
  for (;;) {
    const uint32_t done = done_.load(std::memory_order_acquire);
    if (added - done < queue_max) {
      return;
    }
    done_.wait(done, std::memory_order_acquire);
  }
}

void UploadDigest::work() {
  for (uint32_t next = 0;; ++next) {
    added_.wait(next, std::memory_order_acquire);
    if (over_.load(std::memory_order_relaxed)) {
      return;  // with what is left: nobody wants the digest any more
    }
    hash_.add(queue_[next % kQueueMax]);
    done_.store(next + 1, std::memory_order_release);
    done_.notify_one();
  }
}

}  // namespace agent
