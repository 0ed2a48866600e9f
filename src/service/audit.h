// Audit: who did what, when, from where and with what end, one row an action. record() only queues:
// nobody waits for the disk. The rows are written in groups, at the latest kAuditDelay later,
// before a list is read, and before the process ends. An action that began is noted in the spool
// (service/audit_spool.h) before its work is done, so that a killed process has its row too: as
// unfinished. Never in a row: values of environments, standard input, bodies of files. Every detail
// is cut to a bound, so is the queue: should the store stand still for that long, the next row says
// how many are missing.
// Owned by main; loop thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "net/blocking_pool.h"
#include "net/task_group.h"
#include "service/audit_spool.h"
#include "service/caller.h"
#include "store/store.h"
#include "wire/json.h"

namespace service {

using AuditRow = store::AuditRow;
using AuditFilter = store::AuditFilter;
using AuditPage = store::Page<AuditRow>;
using AuditHead = model::AuditHead;

// Names of events; docs/api.md lists them.
namespace audit_event {
inline constexpr std::string_view kCreate = "sandbox.create";
inline constexpr std::string_view kPatch = "sandbox.patch";
inline constexpr std::string_view kDelete = "sandbox.delete";
inline constexpr std::string_view kExpire = "sandbox.expire";
inline constexpr std::string_view kDenied = "access.denied";
inline constexpr std::string_view kLost = "audit.lost";
}  // namespace audit_event

struct AuditRecord {
  std::string_view event;  // of static storage
  std::string sandbox;     // empty: of none
  wire::json::Object details;
  // How it ended.
  int status = 0;
  std::string_view error;  // the API's code, of static storage
  int64_t duration_ms = -1;
  int64_t bytes_in = 0;  // contents, where their size is known
  int64_t bytes_out = 0;
  uint64_t begun = 0;  // what begin() gave for it; 0: it was not noted
};

// `text` cut to a bound between two characters, with "..." where something is missing; what is not
// UTF-8 is percent-encoded.
std::string audit_text(std::string_view text);
// The same for each of a list, and for the list: {"argv": [...]} of any size is safe to record.
wire::json::Array audit_list(const std::vector<std::string>& list);

class Audit {
 public:
  Audit(net::EventLoop& loop, base::Clock& clock, net::BlockingPool& pool, store::Store& store,
        base::Log& log)
      : clock_(clock),
        pool_(pool),
        store_(store),
        log_(log),
        loop_(loop),
        pending_event_(loop),
        written_event_(loop) {}

  // Before anything else: opens the spool and queues what a killed process had begun. Without it
  // begin() notes nothing.
  net::Task<base::Result<void>> open_spool(std::string file);
  // Notes that this begins; what it gives belongs into the record of its end.
  uint64_t begin(const Caller& caller, const AuditRecord& record, std::string_view request_id);

  void record(const Caller& caller, AuditRecord record);
  // Of what could fill the log: calls without a valid token, which everybody can make, and calls
  // that were refused because there were too many. Only some each second get a row, the next one
  // says how many had none.
  void record_bounded(const Caller& caller, AuditRecord record);
  // Of what the gateway does by itself to a team's sandbox.
  void record_own(std::string team, AuditRecord record);
  // The row for those who write it in a transaction of their own.
  [[nodiscard]] AuditRow row(const Caller& caller, AuditRecord record) const;

  // Newest first; what was recorded before is there. Whether the caller may see the filter's team
  // is the caller's to know.
  net::Task<base::Result<AuditPage>> page(AuditFilter filter);
  // Of one sandbox, deleted ones too. not_found: it is not the caller's team's.
  net::Task<base::Result<AuditPage>> page(Caller caller, std::string sandbox, AuditFilter filter);
  // Rows as lines, in the order of the chain, from behind the id `after` on to `until` at most.
  net::Task<base::Result<store::AuditPiece>> lines(AuditFilter filter, int64_t after,
                                                   int64_t until);
  net::Task<base::Result<AuditHead>> head();
  net::Task<base::Result<std::vector<store::ActivityPoint>>> activity(store::ActivityFilter filter,
                                                                      int64_t limit);
  struct Counted {
    std::vector<AuditRow> rows;
    int64_t total = 0;  // on all pages
  };
  net::Task<base::Result<Counted>> list_counted(Caller caller, std::string sandbox,
                                                AuditFilter filter);
  net::Task<base::Result<AuditRow>> find(Caller caller, std::string sandbox, int64_t id);

  [[nodiscard]] int64_t now_ms() const { return base::to_ms(clock_.wall()); }
  struct Counts {
    uint64_t written = 0;
    uint64_t lost = 0;  // rows that the queue had no room for
    size_t pending = 0;
  };
  [[nodiscard]] Counts counts() const {
    return {.written = written_, .lost = lost_ever_, .pending = pending_.size()};
  }

  // Until all that was recorded before is written, or the store has refused it once.
  net::Task<void> flush();
  // Until stop() and nothing is pending. Spawned by main.
  net::Task<void> run();
  void stop();

 private:
  struct Pending {
    AuditRow row;
    wire::json::Object details;  // made a text on the pool's thread
    uint64_t begun = 0;
  };
  void queue(Pending pending);
  // False: the store has not taken them; they wait.
  net::Task<bool> write_pending();

  base::Clock& clock_;
  net::BlockingPool& pool_;
  store::Store& store_;
  base::Log& log_;
  std::vector<Pending> pending_;
  uint64_t recorded_ = 0;
  uint64_t written_ = 0;
  uint64_t lost_ = 0;  // since the last row
  uint64_t lost_ever_ = 0;
  uint64_t refusals_ = 0;  // of the store
  int64_t bounded_second_ = 0;
  int bounded_rows_ = 0;          // in that second
  int64_t bounded_left_out_ = 0;  // since the last row of one
  bool wanted_ = false;           // somebody waits for what is pending
  bool stopping_ = false;
  net::EventLoop& loop_;
  std::unique_ptr<AuditSpool> spool_;
  net::Event pending_event_;
  net::Event written_event_;
};

}  // namespace service
