// SHA-256 of an upload, computed beside the writing: a thread of its own hashes pieces in their
// order while the loop's thread writes them to the file and takes in the next. It starts when an
// upload turns out to be large and ends with this object; before, and where the sandbox has no
// process left for it, the loop's thread hashes. The thread touches nothing but the pieces and the
// digest.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "agent/sha256.h"
#include "agent/side_queue.h"

namespace agent {

class UploadDigest {
 public:
  // So many pieces may be with the thread when add() has returned.
  static constexpr uint32_t kQueueMax = 2;

  // The bytes must stay as they are until kQueueMax more pieces have been added, or finish() has
  // returned. Waits where the thread is that far behind.
  void add(std::string_view piece);
  // In hex; nothing may be added afterwards.
  std::string finish();

 private:
  // Starting a thread costs about as much as hashing so much.
  static constexpr size_t kAloneBytesMax = size_t{128} * 1024;

  void work();

  Sha256 hash_;
  size_t alone_bytes_ = 0;  // hashed before the thread was there
  SideQueue<std::string_view, kQueueMax> queue_;
};

}  // namespace agent
