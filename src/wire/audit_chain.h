// The audit log as JSON lines, and the chain that makes changes of it evident. A line is
//   {"id":7,"at":"...","team":...,...,"details":{...},"prev":"HEX","hash":"HEX"}
// with its members in this order and no blanks between them. `hash` is the SHA-256 of the line's
// bytes before `,"hash":`, so it covers all of the row and, by `prev`, all rows before it; whoever
// has the lines can check them with nothing but a SHA-256. Ids count up by one. The first row of a
// chain has kAuditGenesis for `prev`. What a retention time cuts off the beginning leaves a row
// `audit.cut` that tells the last id it took and that row's hash. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "model/audit_row.h"

namespace wire {

// `prev` of the first row: 64 zeros.
inline constexpr std::string_view kAuditGenesis =
    "0000000000000000000000000000000000000000000000000000000000000000";
// The row that a cut of the beginning leaves.
inline constexpr std::string_view kAuditCutEvent = "audit.cut";
// A row's texts are cut to 4 KiB and its lists to 8 by who writes it; JSON escapes may make them
// six times as long.
inline constexpr size_t kAuditLineBytesMax = size_t{1024} * 1024;

// The hash of a row that follows one with the hash `prev`.
std::string audit_hash(const model::AuditRow& row, std::string_view prev);
// The row as a line, without the newline. A row that is older than the chain (without a hash) has
// an empty `prev` and `hash`.
std::string audit_line(const model::AuditRow& row, std::string_view prev);
// The details of a kAuditCutEvent.
std::string audit_cut_details(const model::AuditHead& last, int64_t count);

// Checks lines of a whole log (of all teams, without a filter), in order, in constant memory.
class AuditVerifier {
 public:
  // `noted`: a head that was noted down earlier; the log must still have it.
  explicit AuditVerifier(std::optional<model::AuditHead> noted = std::nullopt)
      : noted_(std::move(noted)) {}

  // conflict, with the first broken row in the message and details.row, once the chain is broken;
  // malformed for what is no line of a log.
  base::Result<void> add(std::string_view line);

  struct Report {
    int64_t rows = 0;
    int64_t older_rows = 0;  // without a hash: older than the chain
    int64_t first_id = 0;
    model::AuditHead head;
    bool noted_is_cut = false;  // the noted row is older than what is kept: it proves nothing
  };
  // After the last line. conflict: the beginning is missing without a row that tells of it, or the
  // noted head is not in the log (which was cut short, or written anew).
  base::Result<Report> finish() const;

 private:
  base::Result<void> check_noted(int64_t id, std::string_view hash);

  std::optional<model::AuditHead> noted_;
  bool noted_found_ = false;
  Report report_;
  bool is_chained_ = false;  // a row with a hash was seen
  std::string first_prev_;   // of the first line, where it has a hash
  bool cut_is_told_ = false;
};

// "ID:HASH", as people note it.
std::string audit_head_text(const model::AuditHead& head);
// invalid_field for another form.
base::Result<model::AuditHead> parse_audit_head(std::string_view text);
// A sentence about a log that is whole.
std::string audit_report(const AuditVerifier::Report& report);

}  // namespace wire
