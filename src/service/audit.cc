#include "service/audit.h"

#include <algorithm>

namespace service {
namespace {

using base::Result;
using net::Task;

// A row may be written this much later, so that many share one transaction: what a killed gateway
// can lose of its audit log.
constexpr base::Milliseconds kAuditDelay{200};
// As many rows as a store that hangs for some seconds leaves at full load; about 16 MiB.
constexpr size_t kPendingMax = 32'768;
// A path (PATH_MAX) is whole, a script shows how it begins.
constexpr size_t kTextBytesMax = 4096;
constexpr size_t kListMax = 64;
// Of all texts of one list: an argument list shows its beginning.
constexpr size_t kListBytesMax = 8192;
constexpr std::string_view kCut = "...";
// In one transaction: a create waits behind it for about 5 ms.
constexpr size_t kGroupMax = 512;
// Enough to see that somebody tries tokens or floods, too few to fill a disk with.
constexpr int kBoundedRowsPerSecond = 5;
constexpr int64_t kMsPerSecond = 1000;
// Between two tries of a store that refuses.
constexpr base::Milliseconds kRetryPause{1000};

}  // namespace

std::string audit_text(std::string_view text) {
  if (!base::is_utf8(text)) {
    // Percent-encoded it is no more than three times as long, and valid wherever it is cut.
    return audit_text(base::percent_encode(text.substr(0, kTextBytesMax)));
  }
  if (text.size() <= kTextBytesMax) {
    return std::string(text);
  }
  size_t end = kTextBytesMax - kCut.size();
  const auto is_inside = [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U; };
  while (end > 0 && is_inside(text[end])) {
    --end;
  }
  return base::cat(text.substr(0, end), kCut);
}

wire::json::Array audit_list(const std::vector<std::string>& list) {
  wire::json::Array out;
  size_t bytes = 0;
  for (const std::string& item : list) {
    if (out.size() == kListMax || bytes >= kListBytesMax) {
      out.emplace_back(kCut);
      break;
    }
    std::string text = audit_text(item);
    bytes += text.size();
    out.emplace_back(std::move(text));
  }
  return out;
}

namespace {

// All of the row but its details.
AuditRow row_of(const Caller& caller, AuditRecord& record, int64_t at_ms) {
  return AuditRow{.team = caller.team,
                  .sandbox = std::move(record.sandbox),
                  .at_ms = at_ms,
                  .event = std::string(record.event),
                  .caller = caller.subject,
                  .token = caller.token_id,
                  .remote = caller.remote,
                  .status = record.status,
                  .error = std::string(record.error),
                  .duration_ms = record.duration_ms,
                  .bytes_in = record.bytes_in,
                  .bytes_out = record.bytes_out};
}

}  // namespace

AuditRow Audit::row(const Caller& caller, AuditRecord record) const {
  AuditRow row = row_of(caller, record, base::to_ms(clock_.wall()));
  row.details_json = wire::json::serialize(record.details);
  return row;
}

Task<Result<void>> Audit::open_spool(std::string file) {
  std::vector<AuditSpool::Unfinished> found;
  auto open = [&file, &found] { return AuditSpool::open(file, found); };
  CO_ASSIGN_OR_RETURN(spool_, co_await pool_.run(std::move(open)));
  std::vector<std::string> ids;
  ids.reserve(found.size());
  for (const auto& unfinished : found) {
    ids.push_back(unfinished.request_id);
  }
  if (ids.empty()) {
    CO_ASSIGN_OR_RETURN(const auto head, co_await this->head());
    spool_->end({}, head.id);
    co_return Result<void>{};
  }
  // A process killed between a row's transaction and the spool's note of it has both.
  auto look = [this, &ids, after = spool_->stored_through()] {
    return store_.requests_in_audit(after, ids);
  };
  CO_ASSIGN_OR_RETURN(const auto stored, co_await pool_.run(std::move(look)));
  for (auto& unfinished : found) {
    if (std::ranges::find(stored, unfinished.request_id) != stored.end()) {
      spool_->end({unfinished.number}, 0);
      continue;
    }
    auto details = wire::json::parse_object(unfinished.row.details_json);
    wire::json::Object object = details ? std::move(*details) : wire::json::Object{};
    object["request_id"] = unfinished.request_id;
    object["unfinished"] = true;
    queue({.row = std::move(unfinished.row),
           .details = std::move(object),
           .begun = unfinished.number});
  }
  co_return Result<void>{};
}

uint64_t Audit::begin(const Caller& caller, const AuditRecord& record,
                      std::string_view request_id) {
  if (!spool_) {
    return 0;
  }
  AuditRow row{.team = caller.team,
               .sandbox = record.sandbox,
               .at_ms = base::to_ms(clock_.wall()),
               .event = std::string(record.event),
               .caller = caller.subject,
               .token = caller.token_id,
               .remote = caller.remote,
               .details_json = wire::json::serialize(record.details)};
  const auto begun = spool_->begin(row, request_id);
  if (!begun) {
    log_.error("the begin of an action could not be noted for the audit log",
               {{"error", begun.error().message}});
    return 0;
  }
  return *begun;
}

void Audit::record(const Caller& caller, AuditRecord record) {
  AuditRow row = row_of(caller, record, base::to_ms(clock_.wall()));
  queue({.row = std::move(row), .details = std::move(record.details), .begun = record.begun});
}

void Audit::record_own(std::string team, AuditRecord record) {
  queue({.row = {.team = std::move(team),
                 .sandbox = std::move(record.sandbox),
                 .at_ms = base::to_ms(clock_.wall()),
                 .event = std::string(record.event)},
         .details = std::move(record.details)});
}

void Audit::record_bounded(const Caller& caller, AuditRecord record) {
  const int64_t second = base::to_ms(clock_.wall()) / kMsPerSecond;
  if (std::exchange(bounded_second_, second) != second) {
    bounded_rows_ = 0;
  }
  if (bounded_rows_ == kBoundedRowsPerSecond) {
    ++bounded_left_out_;
    return;
  }
  ++bounded_rows_;
  if (bounded_left_out_ > 0) {
    record.details["left_out"] = std::exchange(bounded_left_out_, 0);
  }
  this->record(caller, std::move(record));
}

void Audit::queue(Pending pending) {
  const bool was_empty = pending_.empty();
  if (pending_.size() >= kPendingMax) {
    ++lost_;
    ++lost_ever_;
    return;
  }
  if (lost_ > 0) {
    pending_.push_back(
        {.row = {.at_ms = pending.row.at_ms, .event = std::string(audit_event::kLost)},
         .details = {{"count", std::exchange(lost_, 0)}}});
    ++recorded_;
  }
  pending_.push_back(std::move(pending));
  ++recorded_;
  // The first one wakes the writer, which then waits for more; the writer looks by itself after
  // what it has written.
  if (was_empty) {
    pending_event_.notify();
  }
}

Task<void> Audit::flush() {
  const uint64_t wanted = recorded_;
  const uint64_t refusals = refusals_;
  while (written_ < wanted && refusals_ == refusals) {
    wanted_ = true;
    pending_event_.notify();
    const auto wake = co_await written_event_.wait(net::Deadline::never());
    if (wake == net::EventLoop::Wake::cancelled) {
      co_return;
    }
  }
}

Task<bool> Audit::write_pending() {
  const auto end =
      pending_.begin() + static_cast<std::ptrdiff_t>(std::min(pending_.size(), kGroupMax));
  std::vector<Pending> batch(std::make_move_iterator(pending_.begin()),
                             std::make_move_iterator(end));
  pending_.erase(pending_.begin(), end);
  wanted_ = wanted_ && !pending_.empty();
  auto write = [this, &batch] {
    std::vector<AuditRow> rows;
    rows.reserve(batch.size());
    for (Pending& pending : batch) {
      pending.row.details_json = wire::json::serialize(pending.details);
      rows.push_back(pending.row);
    }
    return store_.append_audit(rows);
  };
  const auto done = co_await pool_.run(std::move(write));
  if (!done) {
    log_.error("rows of the audit log could not be stored",
               {{"count", uint64_t{batch.size()}}, {"error", done.error().message}});
    pending_.insert(pending_.begin(), std::make_move_iterator(batch.begin()),
                    std::make_move_iterator(batch.end()));
    ++refusals_;
  } else {
    written_ += batch.size();
    std::vector<uint64_t> begun;
    for (const Pending& pending : batch) {
      if (pending.begun != 0) {
        begun.push_back(pending.begun);
      }
    }
    if (spool_) {
      spool_->end(begun, *done);
    }
  }
  written_event_.notify();
  co_return done.has_value();
}

Task<void> Audit::run() {
  for (;;) {
    while (pending_.empty()) {
      if (stopping_) {
        co_return;
      }
      co_await pending_event_.wait(net::Deadline::never());
    }
    const auto deadline = net::Deadline::after(kAuditDelay);
    while (!wanted_ && !stopping_ && std::chrono::steady_clock::now() < deadline.time()) {
      co_await pending_event_.wait(deadline);
    }
    const bool stored = co_await write_pending();
    if (!stored) {
      if (stopping_) {
        co_return;  // the spool has what began
      }
      co_await loop_.sleep_until(net::Deadline::after(kRetryPause));
    }
  }
}

void Audit::stop() {
  stopping_ = true;
  pending_event_.notify();
}

Task<Result<AuditPage>> Audit::page(AuditFilter filter) {
  co_await flush();
  auto read = [this, &filter] { return store_.page_audit(filter); };
  co_return co_await pool_.run(std::move(read));
}

Task<Result<AuditPage>> Audit::page(Caller caller, std::string sandbox, AuditFilter filter) {
  co_await flush();
  auto read = [this, &caller, &sandbox, &filter] {
    return store_.page_audit(caller.team, sandbox, filter);
  };
  co_return co_await pool_.run(std::move(read));
}

Task<Result<store::AuditPiece>> Audit::lines(AuditFilter filter, int64_t after, int64_t until) {
  auto read = [this, &filter, after, until] { return store_.audit_lines(filter, after, until); };
  co_return co_await pool_.run(std::move(read));
}

Task<Result<AuditHead>> Audit::head() {
  co_await flush();
  auto read = [this] { return store_.audit_head(); };
  co_return co_await pool_.run(std::move(read));
}

Task<Result<std::vector<store::ActivityPoint>>> Audit::activity(store::ActivityFilter filter,
                                                                int64_t limit) {
  co_await flush();
  auto read = [this, &filter, limit] { return store_.list_activity(filter, limit); };
  co_return co_await pool_.run(std::move(read));
}

Task<Result<Audit::Counted>> Audit::list_counted(Caller caller, std::string sandbox,
                                                 AuditFilter filter) {
  co_await flush();
  auto read = [this, &caller, &sandbox, &filter]() -> Result<Counted> {
    Counted out;
    ASSIGN_OR_RETURN(out.rows, store_.list_audit(caller.team, sandbox, filter));
    ASSIGN_OR_RETURN(out.total, store_.count_audit(caller.team, sandbox, filter));
    return out;
  };
  co_return co_await pool_.run(std::move(read));
}

Task<Result<AuditRow>> Audit::find(Caller caller, std::string sandbox, int64_t id) {
  co_await flush();
  auto read = [this, &caller, &sandbox, id] { return store_.find_audit(caller.team, sandbox, id); };
  co_return co_await pool_.run(std::move(read));
}

}  // namespace service
