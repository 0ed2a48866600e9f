// Contents of an archive's small files, written by a thread of their own beside the loop's: making
// a file and writing it are nearly all kernel time. The thread starts with the first file, writes
// in their order with the acting user's rights, and ends with this object. It touches nothing but
// what it was given. At most kQueueMax files wait.
#pragma once

#include <time.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "agent/accounts.h"
#include "agent/side_queue.h"
#include "base/fd.h"

namespace agent {

struct SmallFile {
  base::Fd file;       // new and empty
  std::string member;  // as the archive calls it
  std::array<timespec, 2> times{};
  std::string bytes;
};

class SmallFiles {
 public:
  static constexpr uint32_t kQueueMax = 256;
  static constexpr size_t kBytesMax = size_t{16} * 1024;  // of one file
  static constexpr size_t kToldMax = 100;

  explicit SmallFiles(const Identity& acting) : acting_(acting) {}

  // Takes the file. False: it is the caller's to write, since as many wait as may, one has failed,
  // or the sandbox has no process left for a thread.
  bool add(SmallFile& file);
  [[nodiscard]] bool has_failed() const { return has_failed_.load(std::memory_order_relaxed); }
  // In the caller's thread.
  static int write(const SmallFile& file);  // 0, or the errno value

  struct Outcome {
    uint64_t written_count = 0;
    std::vector<std::string> written;  // the first kToldMax members
    int errno_value = 0;               // 0: none failed
    std::vector<SmallFile> unwritten;  // the one that failed, and those behind it
  };
  // Waits until none is left and tells what became of them since the last time.
  Outcome wait();

 private:
  void work();
  void take(SmallFile& file);

  const Identity& acting_;
  std::atomic<bool> has_failed_{false};
  Outcome outcome_;  // the thread's while any file is with it
  SideQueue<SmallFile, kQueueMax> queue_;
};

}  // namespace agent
