// The filter of an audit log's list, as both APIs take it under names of their own.
#pragma once

#include "server/exchange.h"

namespace server {

struct AuditNames {
  std::string_view event;
  std::string_view from;
  std::string_view until;
};

// event, times and limit; the page's place is the route's own.
Result<service::AuditFilter> audit_filter(const Exchange& exchange, const AuditNames& names);

}  // namespace server
