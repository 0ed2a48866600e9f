#include <algorithm>

#include "server/answers_json.h"
#include "server/client_watch.h"
#include "server/event_stream.h"
#include "server/handlers.h"
#include "service/access.h"

namespace server {
namespace {

constexpr size_t kIdempotencyKeyBytesMax = 200;
constexpr int64_t kEventsPageMax = 1000;
// GET /sandboxes?label=: as many as a sandbox can have.
constexpr size_t kLabelFiltersMax = 32;

Result<net::Deadline> wait_deadline(const Exchange& exchange) {
  ASSIGN_OR_RETURN(const int64_t seconds,
                   exchange.integer_parameter("wait", 0, kWaitSecondsMax, 0));
  return net::Deadline::after(std::chrono::seconds(seconds));
}

Result<std::optional<service::IdempotencyKey>> idempotency_key(const Exchange& exchange,
                                                               std::string_view body) {
  const std::string* key = exchange.request().find("idempotency-key");
  if (key == nullptr) {
    return std::nullopt;
  }
  if (key->empty() || key->size() > kIdempotencyKeyBytesMax) {
    return base::fail_field("Idempotency-Key", "the key must have 1 to ", kIdempotencyKeyBytesMax,
                            " characters");
  }
  return service::IdempotencyKey{.key = *key, .body_digest = service::token_hash(body)};
}

// label=k=v, as often as wanted.
Result<void> add_label(service::SandboxFilter& filter, std::string_view text) {
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0 || filter.labels.size() == kLabelFiltersMax) {
    return base::fail_field("label", "'label' must be key=value");
  }
  filter.labels.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  return {};
}

Result<void> add_states(service::SandboxFilter& filter, std::string_view text) {
  for (const std::string_view name : base::split(text, ',')) {
    const auto state = model::parse_sandbox_state(name);
    if (!state) {
      return base::fail_field("state", "'", name, "' is not a state");
    }
    filter.states.push_back(*state);
  }
  return {};
}

std::unexpected<Error> unknown_parameter(std::string_view name) {
  auto error = base::fail(ErrorCode::unknown_field, "unknown query parameter '", name, "'");
  error.error().details.emplace_back("field", name);
  return error;
}

struct ListRequest {
  service::Sandboxes::ListedTeams teams;
  service::SandboxFilter filter;
};

Result<ListRequest> parse_list(const Exchange& exchange) {
  ListRequest list;
  service::SandboxFilter& filter = list.filter;
  ASSIGN_OR_RETURN(const auto parameters, exchange.request().parameters());
  for (const auto& [name, value] : parameters) {
    if (!base::is_utf8(value)) {
      return base::fail(ErrorCode::malformed, "query parameter '", name, "' is not UTF-8");
    }
    if (name == "state") {
      RETURN_IF_ERROR(add_states(filter, value));
    } else if (name == "label") {
      RETURN_IF_ERROR(add_label(filter, value));
    } else if (name == "owner") {
      filter.owner = value;
    } else if (name == "image") {
      filter.image = value;
    } else if (name == "q") {
      filter.text = value;
    } else if (name == "cursor") {
      filter.cursor = value;
    } else if (name == "team") {
      list.teams.only = value;
    } else if (name == "scope") {
      ASSIGN_OR_RETURN(list.teams.all, scope_parameter(exchange));
    } else if (name != "limit" && name != "all") {
      return unknown_parameter(name);
    }
  }
  ASSIGN_OR_RETURN(filter.limit, exchange.integer_parameter("limit", 1, kListMax, kListDefault));
  ASSIGN_OR_RETURN(filter.archived, exchange.flag_parameter("all"));
  return list;
}

Task<Result<void>> send_events(EventStream& stream,
                               const std::vector<service::SandboxEvent>& events, int64_t& after) {
  for (const service::SandboxEvent& event : events) {
    after = event.id;
    CO_RETURN_IF_ERROR(co_await stream.send(base::cat(event.id), event.type,
                                            wire::json::serialize(event_json(event))));
  }
  co_return Result<void>{};
}

// What is recorded, then what comes, until the sandbox is gone or the client is.
Task<Result<void>> follow_events(Application& application, Exchange& exchange, std::string id,
                                 int64_t after) {
  const service::LivePtr live = application.sandboxes.find_live(exchange.caller(), id);
  CO_ASSIGN_OR_RETURN(auto events, co_await application.sandboxes.events(exchange.caller(), id,
                                                                         after, kEventsPageMax));
  EventStream stream(exchange);
  CO_RETURN_IF_ERROR(co_await stream.begin());
  const ClientWatch watch(exchange.client(), [live] {
    if (live) {
      live->recorded.notify();
    }
  });
  for (;;) {
    // What is recorded from here on is seen by the next look.
    const uint64_t seen = live ? live->events_seen : 0;
    CO_RETURN_IF_ERROR(co_await send_events(stream, events, after));
    const bool ended = std::ranges::any_of(
        events, [](const service::SandboxEvent& event) { return event.type == "deleted"; });
    if (ended || (!live && events.empty())) {
      co_return co_await stream.end();
    }
    while (live && events.size() < kEventsPageMax && live->events_seen == seen && !watch.gone()) {
      const auto wake = co_await live->recorded.wait(net::Deadline::after(kStreamKeepAlive));
      if (wake == net::EventLoop::Wake::cancelled) {
        co_return base::fail(ErrorCode::cancelled, "the gateway stops");
      }
      if (wake == net::EventLoop::Wake::deadline) {
        CO_RETURN_IF_ERROR(co_await stream.keep_alive());
      }
    }
    if (watch.gone()) {
      exchange.close_after();
      co_return Result<void>{};
    }
    CO_ASSIGN_OR_RETURN(events, co_await application.sandboxes.events(exchange.caller(), id, after,
                                                                      kEventsPageMax));
  }
}

Result<int64_t> last_event_id(const Exchange& exchange) {
  const std::string* text = exchange.request().find("last-event-id");
  if (text == nullptr) {
    return 0;
  }
  const auto id = base::parse_number<int64_t>(*text);
  if (!id || *id < 0) {
    return base::fail_field("Last-Event-ID", "the id of an event is a number");
  }
  return *id;
}

}  // namespace

Task<Result<void>> create_sandbox(Application& application, Exchange& exchange) {
  CO_RETURN_IF_ERROR(exchange.check_parameters({"wait"}));
  CO_ASSIGN_OR_RETURN(const net::Deadline deadline, wait_deadline(exchange));
  CO_ASSIGN_OR_RETURN(auto body, co_await exchange.read_body(kCreateBodyBytesMax));
  CO_ASSIGN_OR_RETURN(auto key, idempotency_key(exchange, body));
  CO_ASSIGN_OR_RETURN(auto created, co_await application.sandboxes.create(
                                        exchange.caller(), std::move(body), std::move(key)));
  if (created.fresh) {
    exchange.audit().event = {};  // written with the sandbox itself
  }
  exchange.enter_team(created.row.team);
  exchange.audit().sandbox = created.row.id;
  exchange.note("repeated", true);
  CO_ASSIGN_OR_RETURN(const auto row, co_await application.sandboxes.wait_settled(
                                          exchange.caller(), created.row.id, true, deadline));
  co_return co_await exchange.answer_json(
      created.fresh ? 201 : 200,
      wire::json::serialize(sandbox_json(row, application.sandboxes.admission())),
      {{"location", base::cat("/sandboxes/", row.id)}});
}

Task<Result<void>> list_sandboxes(Application& application, Exchange& exchange) {
  CO_ASSIGN_OR_RETURN(auto list, parse_list(exchange));
  CO_ASSIGN_OR_RETURN(const auto page,
                      co_await application.sandboxes.list(exchange.caller(), std::move(list.teams),
                                                          std::move(list.filter)));
  wire::json::Array items;
  for (const service::SandboxRow& row : page.items) {
    items.push_back(sandbox_json(row, application.sandboxes.admission()));
  }
  co_return co_await exchange.answer_json(200, list_body(std::move(items), page.next_cursor));
}

Task<Result<void>> get_sandbox(Application& application, Exchange& exchange) {
  CO_RETURN_IF_ERROR(exchange.check_parameters({"wait", "all"}));
  CO_ASSIGN_OR_RETURN(const net::Deadline deadline, wait_deadline(exchange));
  CO_ASSIGN_OR_RETURN(const bool archived, exchange.flag_parameter("all"));
  CO_ASSIGN_OR_RETURN(const auto row,
                      co_await application.sandboxes.wait_settled(
                          exchange.caller(), exchange.segment(0), archived, deadline));
  ContainerStates states;
  if (row.state == model::SandboxState::ready || row.state == model::SandboxState::starting) {
    states = co_await application.sandboxes.containers(row);
  }
  co_return co_await exchange.answer_json(
      200, wire::json::serialize(sandbox_json(row, application.sandboxes.admission(), states)));
}

Task<Result<void>> stop_container(Application& application, Exchange& exchange) {
  CO_RETURN_IF_ERROR(exchange.check_parameters({}));
  CO_ASSIGN_OR_RETURN(const auto use,
                      application.sandboxes.use(exchange.caller(), exchange.segment(0)));
  const service::SandboxRow& row = use.live()->row;
  const auto number = service::container_number(row, exchange.segment(1));
  if (!number) {
    co_return base::fail(ErrorCode::not_found, number.error().message);
  }
  CO_ASSIGN_OR_RETURN(const auto status,
                      co_await application.sandboxes.stop_container(use.live(), *number));
  co_return co_await exchange.answer_json(
      200, wire::json::serialize(container_json(row.containers[*number], row.state, status)));
}

Task<Result<void>> check_compose(Application& /*application*/, Exchange& exchange) {
  CO_RETURN_IF_ERROR(exchange.check_parameters({}));
  CO_ASSIGN_OR_RETURN(const auto body, co_await exchange.read_body(kCreateBodyBytesMax));
  CO_ASSIGN_OR_RETURN(auto needs, service::check_compose(body));
  co_return co_await exchange.answer_json(200, wire::json::serialize(needs));
}

Task<Result<void>> patch_sandbox(Application& application, Exchange& exchange) {
  CO_RETURN_IF_ERROR(exchange.check_parameters({}));
  CO_ASSIGN_OR_RETURN(auto body, co_await exchange.read_body(kSmallBodyBytesMax));
  CO_ASSIGN_OR_RETURN(const auto row, co_await application.sandboxes.patch(
                                          exchange.caller(), exchange.segment(0), std::move(body)));
  exchange.note("lease_sec", row.lease_sec);
  exchange.note("network", service::audit_text(model::to_text(row.network)));
  exchange.note("labels", row.labels.size());
  co_return co_await exchange.answer_json(
      200, wire::json::serialize(sandbox_json(row, application.sandboxes.admission())));
}

Task<Result<void>> delete_sandbox(Application& application, Exchange& exchange) {
  CO_RETURN_IF_ERROR(exchange.check_parameters({"wait"}));
  CO_ASSIGN_OR_RETURN(const net::Deadline deadline, wait_deadline(exchange));
  const service::LivePtr live =
      application.sandboxes.find_live(exchange.caller(), exchange.segment(0));
  CO_RETURN_IF_ERROR(co_await application.sandboxes.remove(exchange.caller(), exchange.segment(0)));
  CO_ASSIGN_OR_RETURN(const auto wait, exchange.request().parameter("wait"));
  const bool is_gone = co_await application.sandboxes.wait_gone(live, deadline);
  if (wait && is_gone) {
    co_return co_await exchange.answer_empty(204);
  }
  co_return co_await exchange.answer_json(
      202, wire::json::serialize(sandbox_json(live->row, application.sandboxes.admission())));
}

Task<Result<void>> sandbox_events(Application& application, Exchange& exchange) {
  CO_RETURN_IF_ERROR(exchange.check_parameters({"follow", "cursor", "limit"}));
  CO_ASSIGN_OR_RETURN(const bool follow, exchange.flag_parameter("follow"));
  if (follow && exchange.request().method != "HEAD") {
    CO_ASSIGN_OR_RETURN(const int64_t after, last_event_id(exchange));
    co_return co_await follow_events(application, exchange, exchange.segment(0), after);
  }
  CO_ASSIGN_OR_RETURN(const int64_t limit,
                      exchange.integer_parameter("limit", 1, kListMax, kListDefault));
  CO_ASSIGN_OR_RETURN(const int64_t after, exchange.integer_parameter("cursor", 0, INT64_MAX, 0));
  CO_ASSIGN_OR_RETURN(const auto events, co_await application.sandboxes.events(
                                             exchange.caller(), exchange.segment(0), after, limit));
  wire::json::Array items;
  for (const service::SandboxEvent& event : events) {
    items.push_back(event_json(event));
  }
  const bool is_full = static_cast<int64_t>(events.size()) == limit;
  const std::string next = is_full ? base::cat(events.back().id) : "";
  co_return co_await exchange.answer_json(200, list_body(std::move(items), next));
}

}  // namespace server
