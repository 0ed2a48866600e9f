// The route table and how a request finds its row. The table is the one place that says what the
// API serves; api/openapi.yaml is checked against it by a test.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/exchange.h"

namespace server {

struct Application;

// Ends with the answer sent, or with an error for the dispatcher to answer.
using Handler = Task<Result<void>> (*)(Application&, Exchange&);

struct Route {
  std::string_view method;
  std::string_view pattern;  // "/sandboxes/{id}/run"
  service::Scope scope;
  Handler handler;
  // Of the audit log (service/audit.h); empty: the route only looks. docs/api.md lists them.
  std::string_view event = {};
  // A WebSocket: the caller may also be told by a subprotocol or a ticket.
  bool is_websocket = false;
};

// What is built.
std::span<const Route> routes();
// Documented routes that are not built yet: each answers 422 not_supported.
std::span<const Route> routes_not_built();

struct Match {
  const Route* route = nullptr;
  size_t index = 0;  // stable number of the row, for counters
  std::vector<std::string> segments;
};

// not_found, method_not_allowed with details.allow, malformed for a broken escape. HEAD finds the
// row of GET.
Result<Match> find_route(std::string_view method, std::string_view path);

}  // namespace server
