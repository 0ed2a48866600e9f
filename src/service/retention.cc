#include "service/retention.h"

namespace service {
namespace {

constexpr base::Milliseconds kLookInterval{3'600'000};
constexpr int64_t kMsPerDay = 86'400'000;
// A batch is a transaction of some milliseconds.
constexpr int64_t kBatch = 200;
// Rows of the audit log are smaller; each batch leaves one row that tells of it.
constexpr int64_t kAuditBatch = 1000;

}  // namespace

net::Task<int64_t> Retention::forget_due() {
  int64_t forgotten = 0;
  if (days_ == 0) {
    co_return forgotten;
  }
  const int64_t before = context_.now_ms() - days_ * kMsPerDay;
  for (;;) {
    auto forget = [this, before]() -> base::Result<int64_t> {
      RETURN_IF_ERROR(context_.store.forget_builds_before(before, kBatch));
      return context_.store.forget_deleted_before(before, kBatch);
    };
    const auto count = co_await context_.pool.run(std::move(forget));
    if (!count) {
      context_.log.error("archived sandboxes could not be forgotten",
                         {{"error", count.error().message}});
      break;
    }
    forgotten += *count;
    if (*count < kBatch) {
      break;
    }
  }
  if (forgotten > 0) {
    context_.log.info("archived sandboxes forgotten", {{"count", forgotten}});
  }
  co_return forgotten;
}

net::Task<int64_t> Retention::cut_audit() {
  int64_t cut = 0;
  if (audit_days_ == 0) {
    co_return cut;
  }
  for (;;) {
    const int64_t now_ms = context_.now_ms();
    auto forget = [this, now_ms] {
      return context_.store.cut_audit(now_ms - audit_days_ * kMsPerDay, now_ms, kAuditBatch);
    };
    const auto count = co_await context_.pool.run(std::move(forget));
    if (!count) {
      context_.log.error("old rows of the audit log could not be forgotten",
                         {{"error", count.error().message}});
      break;
    }
    cut += *count;
    if (*count < kAuditBatch) {
      break;
    }
  }
  if (cut > 0) {
    context_.log.info("old rows of the audit log forgotten", {{"count", cut}});
  }
  co_return cut;
}

net::Task<void> Retention::run() {
  for (;;) {
    co_await forget_due();
    co_await cut_audit();
    const auto wake = co_await context_.loop.sleep_until(net::Deadline::after(kLookInterval));
    if (wake == net::EventLoop::Wake::cancelled) {
      co_return;
    }
  }
}

}  // namespace service
