// Tickets: what stands for a bearer token in the address of a WebSocket, where a browser can set no
// header. One use, one minute; each speaks for the caller who asked for it. Only hashes are kept,
// in the store: a ticket that one gateway gave, any other takes. Owned by main; loop thread only.
// At most kTicketsMax wait for their use.
#pragma once

#include <string>

#include "service/caller.h"
#include "service/context.h"

namespace service {

class Tickets {
 public:
  // A browser takes its ticket at once; the minute is for slow networks.
  static constexpr int64_t kLifetimeMs = 60'000;
  // A thousand terminals opened a minute; more is a runaway client.
  static constexpr int64_t kTicketsMax = 10'000;

  explicit Tickets(Context& context) : context_(context) {}

  struct Ticket {
    std::string secret;
    int64_t expires_ms = 0;
  };
  // overloaded when too many wait.
  net::Task<base::Result<Ticket>> issue(Caller caller);
  // The caller it stands for; it is gone then. unauthenticated when it is unknown, used or too old.
  net::Task<base::Result<Caller>> redeem(std::string secret);

 private:
  Context& context_;
  int64_t second_ = 0;
  int unknown_ = 0;  // tickets in that second
};

}  // namespace service
