// /api/v1: the audit log of a sandbox, in numbered pages.
#include "server/audit_filter.h"
#include "server/handlers.h"
#include "server/v1_json.h"

namespace server {
namespace {

constexpr int64_t kPagesMax = 1'000'000;

}  // namespace

Task<Result<void>> v1_audit_logs(Application& application, Exchange& exchange) {
  CO_RETURN_IF_ERROR(
      exchange.check_parameters({"page", "limit", "eventName", "startDate", "endDate"}));
  CO_ASSIGN_OR_RETURN(
      auto filter,
      audit_filter(exchange, {.event = "eventName", .from = "startDate", .until = "endDate"}));
  if (filter.until_ms != 0) {
    ++filter.until_ms;  // that moment too
  }
  CO_ASSIGN_OR_RETURN(const int64_t page, exchange.integer_parameter("page", 1, kPagesMax, 1));
  const int64_t limit = filter.limit;
  filter.skip = (page - 1) * limit;
  CO_ASSIGN_OR_RETURN(const auto found, co_await application.audit.list_counted(
                                            exchange.caller(), exchange.segment(0), filter));
  wire::json::Array data;
  for (const service::AuditRow& row : found.rows) {
    data.push_back(v1_audit_json(row));
  }
  const int64_t pages = (found.total + limit - 1) / limit;
  co_return co_await exchange.answer_json(
      200, wire::json::serialize(
               wire::json::Object{{"pagination", wire::json::Object{{"page", page},
                                                                    {"limit", limit},
                                                                    {"total", found.total},
                                                                    {"totalPages", pages},
                                                                    {"hasNext", page < pages},
                                                                    {"hasPrev", page > 1}}},
                                  {"data", std::move(data)}}));
}

Task<Result<void>> v1_audit_log(Application& application, Exchange& exchange) {
  CO_RETURN_IF_ERROR(exchange.check_parameters({}));
  const auto id = base::parse_number<int64_t>(exchange.segment(1));
  if (!id) {
    co_return base::fail(ErrorCode::not_found, "audit log '", exchange.segment(1),
                         "' does not exist");
  }
  CO_ASSIGN_OR_RETURN(const auto row,
                      co_await application.audit.find(exchange.caller(), exchange.segment(0), *id));
  co_return co_await exchange.answer_json(200, wire::json::serialize(v1_audit_json(row)));
}

}  // namespace server
