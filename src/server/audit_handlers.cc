#include <optional>

#include "server/answers_json.h"
#include "server/audit_filter.h"
#include "server/handlers.h"

namespace server {
namespace {

constexpr size_t kEventBytesMax = 100;

// A time of a filter in milliseconds; 0 when absent.
Result<int64_t> time_parameter(const Exchange& exchange, std::string_view name) {
  ASSIGN_OR_RETURN(const auto text, exchange.request().parameter(name));
  if (!text) {
    return 0;
  }
  const auto time = base::parse_rfc3339(*text);
  if (!time) {
    return base::fail_field(name, "'", name, "' must be a time such as 2026-01-31T09:05:07Z");
  }
  return base::to_ms(*time);
}

}  // namespace

Result<service::AuditFilter> audit_filter(const Exchange& exchange, const AuditNames& names) {
  service::AuditFilter filter;
  ASSIGN_OR_RETURN(auto event, exchange.request().parameter(names.event));
  if (event && event->size() > kEventBytesMax) {
    return base::fail_field(names.event, "'", names.event, "' is not the name of an event");
  }
  filter.event = std::move(event).value_or("");
  ASSIGN_OR_RETURN(filter.from_ms, time_parameter(exchange, names.from));
  ASSIGN_OR_RETURN(filter.until_ms, time_parameter(exchange, names.until));
  ASSIGN_OR_RETURN(filter.limit, exchange.integer_parameter("limit", 1, kListMax, kListDefault));
  return filter;
}

namespace {

// Of a caller, a sandbox or a text that is looked for; longer ones are in no row.
constexpr size_t kTextBytesMax = 256;

Result<std::string> text_parameter(const Exchange& exchange, std::string_view name) {
  ASSIGN_OR_RETURN(auto text, exchange.request().parameter(name));
  if (text && text->size() > kTextBytesMax) {
    return base::fail_field(name, "'", name, "' exceeds ", kTextBytesMax, " bytes");
  }
  return std::move(text).value_or("");
}

Task<Result<void>> answer_page(Exchange& exchange, const service::AuditPage& page) {
  wire::json::Array items;
  for (const service::AuditRow& row : page.items) {
    items.push_back(audit_json(row));
  }
  co_return co_await exchange.answer_json(200, list_body(std::move(items), page.next_cursor));
}

// Which teams' rows are asked for: of one that the caller is in, or of all for an admin of the
// platform.
Result<std::optional<std::string>> asked_team(const Exchange& exchange) {
  ASSIGN_OR_RETURN(const auto scope, exchange.request().parameter("scope"));
  ASSIGN_OR_RETURN(const auto team, exchange.request().parameter("team"));
  const service::Caller& caller = exchange.caller();
  if (scope && *scope != "all") {
    return base::fail_field("scope", "'scope' must be all");
  }
  if (scope && !caller.is_platform_admin) {
    return base::fail(ErrorCode::forbidden, "rows of all teams are for admins of the platform");
  }
  if (team && !caller.is_in(*team)) {
    return base::fail(ErrorCode::not_found, "team '", *team, "' does not exist");
  }
  if (team) {
    return *team;
  }
  return scope ? std::optional<std::string>() : std::optional(caller.team);
}

Result<service::AuditFilter> parse_filter(const Exchange& exchange) {
  ASSIGN_OR_RETURN(auto filter,
                   audit_filter(exchange, {.event = "event", .from = "from", .until = "until"}));
  ASSIGN_OR_RETURN(filter.team, asked_team(exchange));
  ASSIGN_OR_RETURN(filter.caller, text_parameter(exchange, "caller"));
  ASSIGN_OR_RETURN(filter.sandbox, text_parameter(exchange, "sandbox"));
  ASSIGN_OR_RETURN(filter.text, text_parameter(exchange, "text"));
  ASSIGN_OR_RETURN(filter.result, text_parameter(exchange, "result"));
  ErrorCode code{};
  if (!filter.result.empty() && filter.result != "ok" && filter.result != "error" &&
      !base::parse_error_code(filter.result, code)) {
    return base::fail_field("result", "'result' must be ok, error or a code of an error");
  }
  ASSIGN_OR_RETURN(filter.cursor, text_parameter(exchange, "cursor"));
  return filter;
}

// Piece by piece, in the order of the chain, up to the row that is the last one now.
Task<Result<void>> export_lines(Application& application, Exchange& exchange,
                                service::AuditFilter filter) {
  CO_ASSIGN_OR_RETURN(const auto head, co_await application.audit.head());
  auto answer = exchange.start_head(200);
  answer.add("content-type", "application/x-ndjson").add("cache-control", "no-store");
  answer.add("content-disposition", "attachment; filename=\"audit-logs.jsonl\"").add_chunked();
  CO_RETURN_IF_ERROR(co_await exchange.begin_answer(std::move(answer), 200));
  if (exchange.request().method == "HEAD") {
    co_return Result<void>{};
  }
  net::HttpWriter writer(exchange.client(), kWritePatience);
  int64_t after = 0;
  while (after < head.id) {
    CO_ASSIGN_OR_RETURN(const auto piece, co_await application.audit.lines(filter, after, head.id));
    after = piece.through;
    // An empty chunk would end the body.
    if (!piece.lines.empty()) {
      CO_RETURN_IF_ERROR(co_await writer.write_chunk(piece.lines));
    }
  }
  co_return co_await writer.finish_chunks();
}

}  // namespace

Task<Result<void>> audit_logs(Application& application, Exchange& exchange) {
  CO_RETURN_IF_ERROR(
      exchange.check_parameters({"scope", "team", "event", "caller", "sandbox", "from", "until",
                                 "result", "text", "limit", "cursor", "format"}));
  CO_ASSIGN_OR_RETURN(auto filter, parse_filter(exchange));
  CO_ASSIGN_OR_RETURN(const auto format, exchange.request().parameter("format"));
  if (format && *format != "json" && *format != "jsonl") {
    co_return base::fail_field("format", "'format' must be json or jsonl");
  }
  if (format == "jsonl") {
    co_return co_await export_lines(application, exchange, std::move(filter));
  }
  CO_ASSIGN_OR_RETURN(const auto page, co_await application.audit.page(std::move(filter)));
  co_return co_await answer_page(exchange, page);
}

Task<Result<void>> audit_head(Application& application, Exchange& exchange) {
  CO_RETURN_IF_ERROR(exchange.check_parameters({}));
  CO_ASSIGN_OR_RETURN(const auto head, co_await application.audit.head());
  co_return co_await exchange.answer_json(
      200, wire::json::serialize(wire::json::Object{{"id", head.id}, {"hash", head.hash}}));
}

Task<Result<void>> sandbox_audit_logs(Application& application, Exchange& exchange) {
  CO_RETURN_IF_ERROR(exchange.check_parameters({"event", "from", "to", "limit", "cursor"}));
  CO_ASSIGN_OR_RETURN(auto filter,
                      audit_filter(exchange, {.event = "event", .from = "from", .until = "to"}));
  CO_ASSIGN_OR_RETURN(filter.cursor, text_parameter(exchange, "cursor"));
  CO_ASSIGN_OR_RETURN(
      const auto page,
      co_await application.audit.page(exchange.caller(), exchange.segment(0), std::move(filter)));
  co_return co_await answer_page(exchange, page);
}

namespace {

constexpr int64_t kMinuteSec = 60;
constexpr int64_t kMsPerSecond = 1000;
constexpr int64_t kHourMs = 3'600'000;
constexpr int64_t kDayMs = 24 * kHourMs;
constexpr int64_t kStepSecMax = int64_t{31} * 24 * 3600;
// A year of days, or four days of quarters of an hour.
constexpr int64_t kStepsMax = 400;
// Of all callers together.
constexpr int64_t kPointsMax = 10'000;

// The last day in hours where nothing is asked for. The beginning is that of its step.
Result<store::ActivityFilter> parse_activity(const Exchange& exchange, int64_t now_ms) {
  store::ActivityFilter filter;
  ASSIGN_OR_RETURN(filter.team, asked_team(exchange));
  ASSIGN_OR_RETURN(const int64_t step_sec,
                   exchange.integer_parameter("step", kMinuteSec, kStepSecMax, 3600));
  if (step_sec % kMinuteSec != 0) {
    return base::fail_field("step", "'step' must be a number of whole minutes, in seconds");
  }
  filter.step_ms = step_sec * kMsPerSecond;
  ASSIGN_OR_RETURN(const int64_t until_ms, time_parameter(exchange, "to"));
  filter.until_ms = until_ms == 0 ? now_ms : until_ms;
  ASSIGN_OR_RETURN(const int64_t from_ms, time_parameter(exchange, "from"));
  filter.from_ms = from_ms == 0 ? std::max<int64_t>(filter.until_ms - kDayMs, 0) : from_ms;
  filter.from_ms = filter.from_ms / filter.step_ms * filter.step_ms;
  if (filter.from_ms >= filter.until_ms) {
    return base::fail_field("from", "'from' must be before 'to'");
  }
  if ((filter.until_ms - filter.from_ms) / filter.step_ms >= kStepsMax) {
    return base::fail_field("step", "more than ", kStepsMax, " steps: ask for longer ones");
  }
  return filter;
}

wire::json::Object numbers_json(const store::ActivityPoint& point) {
  const auto seconds = [](int64_t ms) {
    return static_cast<double>(ms) / static_cast<double>(kMsPerSecond);
  };
  return {{"actions", point.actions},   {"failures", point.failures},
          {"commands", point.commands}, {"command_seconds", seconds(point.command_ms)},
          {"creates", point.creates},   {"sandbox_seconds", seconds(point.sandbox_ms)},
          {"bytes_in", point.bytes_in}, {"bytes_out", point.bytes_out}};
}

void add_to(store::ActivityPoint& sum, const store::ActivityPoint& point) {
  sum.actions += point.actions;
  sum.failures += point.failures;
  sum.commands += point.commands;
  sum.command_ms += point.command_ms;
  sum.creates += point.creates;
  sum.sandbox_ms += point.sandbox_ms;
  sum.bytes_in += point.bytes_in;
  sum.bytes_out += point.bytes_out;
}

// One item a caller: its sum and its steps in which something was. Points come by caller.
wire::json::Array activity_items(const std::vector<store::ActivityPoint>& points) {
  wire::json::Array items;
  for (size_t i = 0; i < points.size();) {
    const store::ActivityPoint& first = points[i];
    store::ActivityPoint sum;
    wire::json::Array series;
    for (; i < points.size() && points[i].team == first.team && points[i].subject == first.subject;
         ++i) {
      add_to(sum, points[i]);
      wire::json::Object step{{"at", time_json(points[i].at_ms)}};
      for (auto& [name, value] : numbers_json(points[i])) {
        step[name] = std::move(value);
      }
      series.emplace_back(std::move(step));
    }
    items.emplace_back(wire::json::Object{{"team", first.team},
                                          {"subject", first.subject},
                                          {"total", numbers_json(sum)},
                                          {"series", std::move(series)}});
  }
  return items;
}

}  // namespace

Task<Result<void>> activity(Application& application, Exchange& exchange) {
  CO_RETURN_IF_ERROR(exchange.check_parameters({"scope", "team", "from", "to", "step"}));
  CO_ASSIGN_OR_RETURN(const auto filter, parse_activity(exchange, application.audit.now_ms()));
  CO_ASSIGN_OR_RETURN(const auto points,
                      co_await application.audit.activity(filter, kPointsMax + 1));
  if (static_cast<int64_t>(points.size()) > kPointsMax) {
    co_return base::fail_field("step", "more than ", kPointsMax,
                               " points: ask for longer steps or a shorter time");
  }
  co_return co_await exchange.answer_json(
      200, wire::json::serialize(wire::json::Object{{"from", time_json(filter.from_ms)},
                                                    {"to", time_json(filter.until_ms)},
                                                    {"step_sec", filter.step_ms / kMsPerSecond},
                                                    {"items", activity_items(points)}}));
}

}  // namespace server
