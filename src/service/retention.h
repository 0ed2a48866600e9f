// Forgets archived sandboxes, with their events, once the retention time since their deletion is
// over, and rows of the audit log once theirs is. Owned by main; loop thread only; writes small
// batches, so that others get their turn.
#pragma once

#include "service/context.h"

namespace service {

inline constexpr int64_t kRetentionDaysDefault = 30;
inline constexpr int64_t kAuditRetentionDaysDefault = 90;

class Retention {
 public:
  // `days`, `audit_days` 0: nothing is ever forgotten.
  Retention(Context& context, int64_t days, int64_t audit_days)
      : context_(context), days_(days), audit_days_(audit_days) {}

  // For main to spawn: looks once at the start and then every hour; ends when cancelled.
  net::Task<void> run();
  // What is due now; the number of sandboxes forgotten.
  net::Task<int64_t> forget_due();
  // The same of the audit log; the number of rows.
  net::Task<int64_t> cut_audit();

 private:
  Context& context_;
  int64_t days_;
  int64_t audit_days_;
};

}  // namespace service
