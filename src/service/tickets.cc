#include "service/tickets.h"

#include "service/caller_text.h"
#include "service/token_hash.h"

namespace service {
namespace {

using base::ErrorCode;
using base::Result;
using net::Task;

constexpr int64_t kMsPerSecond = 1000;
// Everybody can send some, and each asks the store: beyond these none is looked at.
constexpr int kUnknownPerSecond = 100;

std::unexpected<base::Error> not_valid() {
  return base::fail(ErrorCode::unauthenticated, "the ticket is unknown, used or too old");
}

}  // namespace

Task<Result<Tickets::Ticket>> Tickets::issue(Caller caller) {
  const int64_t now = context_.now_ms();
  Ticket ticket{.secret = base::new_secret(context_.random), .expires_ms = now + kLifetimeMs};
  const store::Ticket row{.hash = token_hash(ticket.secret),
                          .caller = caller_text(caller),
                          .expires_ms = ticket.expires_ms};
  auto write = [this, &row, now] { return context_.store.put_ticket(row, now, kTicketsMax); };
  CO_RETURN_IF_ERROR(co_await context_.pool.run(std::move(write)));
  co_return ticket;
}

Task<Result<Caller>> Tickets::redeem(std::string secret) {
  const int64_t second = context_.now_ms() / kMsPerSecond;
  if (std::exchange(second_, second) != second) {
    unknown_ = 0;
  }
  if (unknown_ >= kUnknownPerSecond) {
    co_return not_valid();
  }
  auto take = [this, hash = token_hash(secret)] { return context_.store.take_ticket(hash); };
  CO_ASSIGN_OR_RETURN(const auto row, co_await context_.pool.run(std::move(take)));
  if (!row || row->expires_ms <= context_.now_ms()) {
    ++unknown_;
    co_return not_valid();
  }
  co_return parse_caller_text(row->caller);
}

}  // namespace service
