// AuditSpool: a file of actions that have begun and whose row is not stored yet. An action is
// written to it before its work is done (one write to the page cache, a few microseconds, no sync:
// what SQLite promises here, too), and marked once its row is in the store. What a killed process
// leaves is found at the next start. One process at a time uses a file. When it has grown, it is
// written anew with what is still open: its size is bounded by that and kSpoolBytesMax.
// Owned by Audit; loop thread, open() anywhere.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/fd.h"
#include "model/audit_row.h"

namespace service {

class AuditSpool {
 public:
  struct Unfinished {
    uint64_t number = 0;  // as begin() gave it
    std::string request_id;
    model::AuditRow row;
  };
  // Takes over the file at `path`, or makes it. `unfinished` gets what has begun and did not end;
  // it stays in the file until end() is told of it. A line that is broken (the last one of a killed
  // process may be) is passed over. io. A full disk does not keep it from opening.
  static base::Result<std::unique_ptr<AuditSpool>> open(const std::string& path,
                                                        std::vector<Unfinished>& unfinished);

  // io: it could not be written (a full disk).
  base::Result<uint64_t> begin(const model::AuditRow& row, std::string_view request_id);
  // Their rows are stored; the log then ended with the id `stored_through` (0: not known).
  void end(const std::vector<uint64_t>& numbers, int64_t stored_through);
  [[nodiscard]] int64_t stored_through() const { return stored_through_; }
  [[nodiscard]] size_t open_count() const { return open_.size(); }

 private:
  AuditSpool(std::string path, base::Fd file) : path_(std::move(path)), file_(std::move(file)) {}
  base::Result<void> write(std::string_view line);
  // The file anew with what is open.
  base::Result<void> rewrite();

  std::string path_;
  base::Fd file_;
  std::map<uint64_t, std::string> open_;  // the lines, by number
  size_t open_bytes_ = 0;
  size_t file_bytes_ = 0;
  bool is_cut_ = false;  // the file's last line has no end
  uint64_t last_number_ = 0;
  int64_t stored_through_ = 0;
};

}  // namespace service
