#include "agent/upload_digest.h"

namespace agent {

UploadDigest::~UploadDigest() {
  if (thread_.started()) {
    wait();
    turn_.store(Turn::over, std::memory_order_release);
    turn_.notify_one();
    thread_.join();
  }
}

void UploadDigest::begin(std::string_view bytes) {
  if (bytes.size() < kThreadBytesMin || !thread_.start<&UploadDigest::work>(*this)) {
    hash_.add(bytes);
    return;
  }
  piece_ = bytes;
  turn_.store(Turn::worker, std::memory_order_release);
  turn_.notify_one();
}

void UploadDigest::wait() {
  while (turn_.load(std::memory_order_acquire) == Turn::worker) {
    turn_.wait(Turn::worker, std::memory_order_acquire);
  }
}

void UploadDigest::work() {
  for (;;) {
    turn_.wait(Turn::caller, std::memory_order_acquire);
    const Turn turn = turn_.load(std::memory_order_acquire);
    if (turn == Turn::over) {
      return;
    }
    if (turn == Turn::worker) {
      hash_.add(piece_);
      turn_.store(Turn::caller, std::memory_order_release);
      turn_.notify_one();
    }
  }
}

}  // namespace agent
