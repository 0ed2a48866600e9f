#include "server/audit_record.h"

#include <algorithm>
#include <array>

#include "wire/websocket.h"

namespace server {
namespace {

constexpr int64_t kExitCodeMax = 255;

// A file route's parameters tell what it was about.
void note_parameters(Exchange& exchange) {
  constexpr std::array<std::string_view, 9> kTold{"path", "to",    "user",      "mode",     "owner",
                                                  "tar",  "depth", "recursive", "overwrite"};
  const auto parameters = exchange.request().parameters();
  if (!parameters) {
    return;
  }
  if (exchange.request().body == wire::http::BodyKind::length) {
    exchange.note("bytes", exchange.request().content_length);
  }
  for (const auto& [name, value] : *parameters) {
    const bool is_told = std::ranges::find(kTold, name) != kTold.end();
    if (is_told && !exchange.audit().details.contains(name)) {
      exchange.note(name, service::audit_text(value));
    }
  }
}

// What the address says of it.
void note_what(Exchange& exchange) {
  const service::AuditRecord& record = exchange.audit();
  if (record.event.starts_with("file.")) {
    note_parameters(exchange);
  }
  if (record.event.starts_with("session.") && record.event != "session.start") {
    exchange.note("session", service::audit_text(exchange.segment(1)));
  }
}

// Contents that went in or out, for the counters of activity.
void note_bytes(service::AuditRecord& record) {
  const auto* bytes = record.details.if_contains("bytes");
  const int64_t count = bytes == nullptr ? 0
                        : bytes->is_int64()
                            ? bytes->get_int64()
                            : static_cast<int64_t>(bytes->is_uint64() ? bytes->get_uint64() : 0);
  if (!record.error.empty()) {
    return;
  }
  (record.event == "file.read" ? record.bytes_out : record.bytes_in) += count;
}

bool is_in_sandbox(std::string_view path) {
  return path.starts_with("/sandboxes/") || path.starts_with("/api/v1/sandboxes/");
}

}  // namespace

void note_error(Exchange& exchange, const Error& error) {
  if (error.code == ErrorCode::unauthenticated || error.code == ErrorCode::forbidden) {
    exchange.audit().event = service::audit_event::kDenied;
    exchange.note("method", service::audit_text(exchange.request().method));
    exchange.note("path", service::audit_text(exchange.request().path));
  }
  exchange.audit().error = base::to_string(public_error(error).code);
  exchange.note("error", exchange.audit().error);
}

void note_agent_error(Exchange& exchange, std::string_view json) {
  constexpr std::string_view kCode = "\"code\":\"";
  const size_t at = json.find(kCode);
  if (!json.starts_with("{\"error\":") || at == std::string_view::npos) {
    return;
  }
  json.remove_prefix(at + kCode.size());
  // Only a code of our own list: the agent is not trusted with the log's words.
  ErrorCode code{};
  if (base::parse_error_code(json.substr(0, json.find('"')), code)) {
    exchange.audit().error = base::to_string(code);
    exchange.note("error", exchange.audit().error);
  }
}

void note_session_id(Exchange& exchange, std::string_view json) {
  const auto object = wire::json::parse_object(json);
  const auto* id = object ? object->if_contains("id") : nullptr;
  if (id != nullptr && id->is_string()) {
    exchange.note("session", service::audit_text(id->get_string()));
  }
}

void note_run_result(Exchange& exchange, std::string_view json) {
  constexpr std::string_view kFirst = "{\"exit_code\":";
  note_agent_error(exchange, json);
  json.remove_prefix(std::min(json.find_first_not_of(' '), json.size()));
  if (!json.starts_with(kFirst)) {
    return;
  }
  json = json.substr(kFirst.size(), json.find("\"stdout\"") - kFirst.size());
  const auto exit_code = base::parse_number<int>(json.substr(0, json.find(',')));
  if (!exit_code) {
    return;
  }
  exchange.note_exit_code(*exit_code);
  if (json.contains("\"timed_out\":true")) {
    exchange.note("timed_out", true);
  }
  if (json.contains("\"oom_killed\":true")) {
    exchange.note("oom_killed", true);
  }
}

void note_command_end(Exchange& exchange, std::string_view frames) {
  using wire::websocket::Opcode;
  const std::string close = wire::websocket::make_frame(
      Opcode::close, wire::websocket::close_payload(wire::websocket::kCloseNormal, ""));
  const size_t at = frames.rfind(R"({"type":"exit")");
  if (!frames.ends_with(close) || at == std::string_view::npos) {
    return;  // the client left first
  }
  frames.remove_suffix(close.size());
  const auto exit = wire::json::parse_object(frames.substr(at));
  const auto* code = exit ? exit->if_contains("exit_code") : nullptr;
  if (code != nullptr && code->is_int64() && code->get_int64() >= 0 &&
      code->get_int64() <= kExitCodeMax) {
    exchange.note_exit_code(static_cast<int>(code->get_int64()));
  }
}

bool is_agents_work(const service::AuditRecord& record) {
  return record.event.starts_with("command.") || record.event.starts_with("session.") ||
         record.event.starts_with("file.") || record.event.starts_with("terminal.");
}

void begin_action(Application& application, Exchange& exchange) {
  service::AuditRecord& record = exchange.audit();
  if (record.event.empty() || record.begun != 0 || exchange.caller().team.empty()) {
    return;
  }
  if (record.sandbox.empty() && is_in_sandbox(exchange.request().path)) {
    record.sandbox = service::audit_text(exchange.segment(0));
  }
  note_what(exchange);
  record.begun = application.audit.begin(exchange.caller(), record, exchange.request_id());
}

void record_action(Application& application, Exchange& exchange, base::SteadyTime::duration took) {
  service::AuditRecord& record = exchange.audit();
  if (record.event.empty()) {
    return;
  }
  const bool is_denied = record.event == service::audit_event::kDenied;
  note_what(exchange);
  if (const auto exit_code = exchange.exit_code()) {
    exchange.note("exit_code", *exit_code);
  }
  record.status = exchange.status();
  record.duration_ms = std::chrono::duration_cast<std::chrono::milliseconds>(took).count();
  note_bytes(record);
  exchange.note("status", exchange.status());
  exchange.note("duration_ms", record.duration_ms);
  exchange.note("request_id", exchange.request_id());
  if (is_denied && exchange.caller().team.empty()) {
    application.audit.record_bounded({.remote = exchange.remote()}, std::move(record));
    return;
  }
  if (!is_denied && record.sandbox.empty() && is_in_sandbox(exchange.request().path)) {
    record.sandbox = service::audit_text(exchange.segment(0));
  }
  constexpr int kTooMany = 429;
  if (record.status == kTooMany && record.begun == 0) {
    application.audit.record_bounded(exchange.caller(), std::move(record));
    return;
  }
  application.audit.record(exchange.caller(), std::move(record));
}

}  // namespace server
