#include "agent/upload_digest.h"

#include <algorithm>

namespace agent {

void UploadDigest::add(std::string_view piece) {
  const bool is_early = !queue_.started() && alone_bytes_ + piece.size() < kAloneBytesMax;
  if (is_early || !queue_.start<&UploadDigest::work>(*this)) {
    alone_bytes_ = std::min(alone_bytes_ + piece.size(), kAloneBytesMax);
    hash_.add(piece);
    return;
  }
  queue_.wait_for_count(kQueueMax - 1);
  queue_.add(piece);
  queue_.wake();
}

std::string UploadDigest::finish() {
  queue_.wait_for_count(0);
  return hash_.finish();
}

void UploadDigest::work() {
  queue_.work([this](std::string_view piece) {
    if (!queue_.is_over()) {  // else nobody wants the digest any more
      hash_.add(piece);
    }
  });
}

}  // namespace agent
