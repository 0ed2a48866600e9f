// SHA-256 of an upload, computed beside the writing: large pieces are hashed by a thread of its own
// while the loop's thread writes them to the file. The thread is started with the first large piece
// and ends with this object; where the sandbox has no process left for it, and for small pieces,
// the loop's thread does it. The thread touches nothing but the piece and the digest.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

#include "agent/sha256.h"
#include "agent/small_thread.h"

namespace agent {

class UploadDigest {
 public:
  UploadDigest() = default;
  ~UploadDigest();
  UploadDigest(const UploadDigest&) = delete;
  UploadDigest& operator=(const UploadDigest&) = delete;

  // The bytes must stay as they are until wait() has returned; one piece at a time.
  void begin(std::string_view bytes);
  void wait();
  // In hex; nothing may be added afterwards.
  std::string finish() { return hash_.finish(); }

 private:
  enum class Turn : uint32_t { caller, worker, over };
  // Waking the other thread costs about as much as hashing some 50 KiB.
  static constexpr size_t kThreadBytesMin = size_t{128} * 1024;

  void work();

  Sha256 hash_;
  std::string_view piece_;
  std::atomic<Turn> turn_{Turn::caller};
  SmallThread thread_;
};

}  // namespace agent
