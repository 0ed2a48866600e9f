// The sign-ins of people that have not ended: /sign-ins. One's own by who has signed in, anybody's
// by admins of the platform.
#include <algorithm>
#include <tuple>

#include "server/answers_json.h"
#include "server/handlers.h"
#include "service/sign_in.h"

namespace server {
namespace {

using service::SignInRow;
using wire::json::Object;

Result<service::SignIns*> records_of(Application& application) {
  if (application.people == nullptr) {
    return base::fail(ErrorCode::not_found, "sign-in is not configured");
  }
  return &application.people->records();
}

Object sign_in_json(const SignInRow& row, const service::Caller& caller) {
  return Object{{"id", row.id},
                {"kind", row.kind},
                {"subject", row.subject},
                {"remote", row.remote},
                {"created_at", time_json(row.created_ms)},
                {"expires_at", time_json(row.expires_ms)},
                {"last_used_at", time_json(row.last_used_ms)},
                {"current", caller.identity && caller.identity->sign_in == row.id}};
}

// Whose are meant: the `subject` of the query, else the caller's own. A token's subject is a name
// that an admin of some team gave it, and says nothing of who has signed in.
Result<std::string> subject_of(const Exchange& exchange) {
  const service::Caller& caller = exchange.caller();
  ASSIGN_OR_RETURN(const auto subject, exchange.request().parameter("subject"));
  if (!subject && caller.identity) {
    return caller.identity->subject;
  }
  if (!subject && !caller.is_platform_admin) {
    return base::fail(ErrorCode::forbidden, "a token has no sign-ins of its own");
  }
  if (!subject || subject->empty()) {
    return base::fail_field("subject", "'subject' must name whose sign-ins are meant");
  }
  if (!caller.is_platform_admin && !(caller.identity && caller.identity->subject == *subject)) {
    return base::fail(ErrorCode::forbidden, "sign-ins of others are for admins of the platform");
  }
  return *subject;
}

// "created_ms.id" of the last one of a page.
Result<SignInRow> parse_sign_in_cursor(std::string_view cursor) {
  const size_t dot = cursor.find('.');
  const auto created = base::parse_number<int64_t>(cursor.substr(0, dot));
  if (dot == std::string_view::npos || !created) {
    return base::fail_field("cursor", "'cursor' is not one that a list answered with");
  }
  SignInRow row;
  row.id = cursor.substr(dot + 1);
  row.created_ms = *created;
  return row;
}

}  // namespace

Task<Result<void>> list_sign_ins(Application& application, Exchange& exchange) {
  CO_RETURN_IF_ERROR(exchange.check_parameters({"subject", "scope", "limit", "cursor"}));
  CO_ASSIGN_OR_RETURN(service::SignIns * records, records_of(application));
  CO_ASSIGN_OR_RETURN(const bool all, scope_parameter(exchange));
  CO_ASSIGN_OR_RETURN(const int64_t limit,
                      exchange.integer_parameter("limit", 1, kListMax, kListDefault));
  CO_ASSIGN_OR_RETURN(const auto cursor, exchange.request().parameter("cursor"));
  std::string subject;
  if (!all) {
    CO_ASSIGN_OR_RETURN(subject, subject_of(exchange));
  } else if (!exchange.caller().is_platform_admin) {
    co_return base::fail(ErrorCode::forbidden, "sign-ins of others are for admins of the platform");
  }
  auto rows = records->list(subject);
  if (cursor) {
    CO_ASSIGN_OR_RETURN(const SignInRow last, parse_sign_in_cursor(*cursor));
    std::erase_if(rows, [&last](const SignInRow& row) {
      return std::tie(row.created_ms, row.id) >= std::tie(last.created_ms, last.id);
    });
  }
  wire::json::Array items;
  std::string next_cursor;
  for (const SignInRow& row : rows) {
    if (static_cast<int64_t>(items.size()) == limit) {
      const SignInRow& last = rows[items.size() - 1];
      next_cursor = base::cat(last.created_ms, ".", last.id);
      break;
    }
    items.push_back(sign_in_json(row, exchange.caller()));
  }
  co_return co_await exchange.answer_json(200, list_body(std::move(items), next_cursor));
}

Task<Result<void>> end_sign_in(Application& application, Exchange& exchange) {
  CO_RETURN_IF_ERROR(exchange.check_parameters({}));
  CO_ASSIGN_OR_RETURN(service::SignIns * records, records_of(application));
  const service::Caller& caller = exchange.caller();
  const std::string id(exchange.segment(0));
  exchange.note("sign_in", service::audit_text(id));
  const SignInRow* row = records->find(id);
  const bool is_own = row != nullptr && caller.identity && caller.identity->subject == row->subject;
  if (row == nullptr || !(is_own || caller.is_platform_admin)) {
    co_return base::fail(ErrorCode::not_found, "sign-in '", id, "' does not exist");
  }
  exchange.note("subject", service::audit_text(row->subject));
  std::vector<std::string> ids{id};
  CO_RETURN_IF_ERROR(co_await records->end(std::move(ids)));
  co_return co_await exchange.answer_empty(204);
}

Task<Result<void>> end_sign_ins(Application& application, Exchange& exchange) {
  CO_RETURN_IF_ERROR(exchange.check_parameters({"subject"}));
  CO_ASSIGN_OR_RETURN(service::SignIns * records, records_of(application));
  CO_ASSIGN_OR_RETURN(const std::string subject, subject_of(exchange));
  std::vector<std::string> ids;
  for (const SignInRow& row : records->list(subject)) {
    ids.push_back(row.id);
  }
  const auto ended = static_cast<int64_t>(ids.size());
  exchange.note("subject", service::audit_text(subject));
  exchange.note("ended", ended);
  CO_RETURN_IF_ERROR(co_await records->end(std::move(ids)));
  co_return co_await exchange.answer_json(200, wire::json::serialize(Object{{"ended", ended}}));
}

}  // namespace server
