#include "cli/api.h"

#include <algorithm>

namespace cli {

using base::ErrorCode;
using base::fail;
using wire::json::Array;
using wire::json::Object;
using wire::json::Value;

namespace {

constexpr int kAttemptsMax = 4;
constexpr int kFirstPauseMilliseconds = 200;
// A Retry-After beyond this is for a person to decide about.
constexpr int kRetryAfterSecondsMax = 20;
// Of an answer that is no error of ours, this much is shown.
constexpr size_t kForeignBodyShown = 200;

bool is_worth_repeating(const base::Error& error) {
  return error.code == ErrorCode::unavailable || error.code == ErrorCode::connection_closed;
}

// Milliseconds to wait before the next attempt; 0 when the answer is to be taken as it is.
int pause_before_repeat(const HttpResponse& response, int attempt) {
  if (response.status != 429 && response.status != 503) {
    return 0;
  }
  const std::string* after = response.find("retry-after");
  const auto seconds = after != nullptr ? base::parse_number<int>(*after) : std::nullopt;
  if (!seconds) {
    return kFirstPauseMilliseconds << attempt;
  }
  return *seconds > kRetryAfterSecondsMax ? 0 : std::max(*seconds * 1000, kFirstPauseMilliseconds);
}

}  // namespace

Result<HttpResponse> Api::call(const HttpRequest& request, Repeat repeat, const BodySink& sink,
                               const TransferObserver& observer) {
  for (int attempt = 0;; ++attempt) {
    const bool last = repeat == Repeat::no || attempt + 1 >= kAttemptsMax;
    auto response = http_.send(request, sink, observer);
    int pause = 0;
    if (!response) {
      if (last || !is_worth_repeating(response.error())) {
        return response;
      }
      pause = kFirstPauseMilliseconds << attempt;
    } else if (response->status / 100 == 2) {
      return response;
    } else {
      pause = last ? 0 : pause_before_repeat(*response, attempt);
      if (pause == 0) {
        return std::unexpected(parse_error_answer(*response));
      }
    }
    RETURN_IF_ERROR(interrupt_.sleep_ms(pause));
  }
}

Result<Value> Api::call_json(const HttpRequest& request, Repeat repeat) {
  ASSIGN_OR_RETURN(const auto response, call(request, repeat));
  if (response.body.empty()) {
    return Value(nullptr);
  }
  auto value = wire::json::parse(response.body);
  if (!value) {
    return fail(ErrorCode::internal, "the answer to ", request.method, " ", request.target,
                " is not JSON: is there a Sandbox Gateway at this URL?");
  }
  return value;
}

Result<Object> Api::get_object(const std::string& target, int wait_seconds) {
  HttpRequest request{.target = target};
  request.silence_seconds_max += wait_seconds;
  ASSIGN_OR_RETURN(auto value, call_json(request, Repeat::yes));
  if (!value.is_object()) {
    return fail(ErrorCode::internal, "the answer to GET ", target, " is not an object");
  }
  return std::move(value.get_object());
}

Result<Array> Api::get_list(const std::string& path, const std::string& query, size_t items_max,
                            size_t page_items) {
  Array items;
  std::string cursor;
  while (items.size() < items_max) {
    std::string page_query = query;
    if (page_items > 0) {
      add_parameter(page_query, "limit",
                    std::to_string(std::min(page_items, items_max - items.size())));
    }
    if (!cursor.empty()) {
      add_parameter(page_query, "cursor", cursor);
    }
    ASSIGN_OR_RETURN(const auto page,
                     get_object(base::cat(path, page_query.empty() ? "" : "?", page_query)));
    wire::json::Reader reader(page);
    ASSIGN_OR_RETURN(const auto found, reader.required<Array>("items"));
    items.insert(items.end(), found.begin(), found.end());
    ASSIGN_OR_RETURN(const auto next, reader.optional<std::string>("next_cursor"));
    // A page may be empty before the end: the audit log's looks at so many rows at once.
    if (!next) {
      break;
    }
    cursor = *next;
  }
  return items;
}

Result<bool> Api::remove(const std::string& target, int wait_seconds) {
  HttpRequest request{.method = "DELETE", .target = target};
  if (wait_seconds > 0) {
    request.target += base::cat("?wait=", wait_seconds);
    request.silence_seconds_max += wait_seconds;
  }
  ASSIGN_OR_RETURN(const auto response, call(request, Repeat::yes));
  return response.status == 204;
}

bool is_passing(const base::Error& error) {
  return error.code == ErrorCode::connection_closed || error.code == ErrorCode::unavailable ||
         error.code == ErrorCode::deadline_exceeded || error.code == ErrorCode::draining ||
         error.code == ErrorCode::overloaded || error.code == ErrorCode::rate_limited ||
         error.code == ErrorCode::agent_failed || error.code == ErrorCode::request_timeout;
}

base::Error parse_error_answer(const HttpResponse& response) {
  base::Error error;
  const auto body = wire::json::parse_object(response.body);
  const Value* node = body ? body->if_contains("error") : nullptr;
  if (node == nullptr || !node->is_object()) {
    error.code = response.status == 401 ? ErrorCode::unauthenticated : ErrorCode::internal;
    error.message = base::cat("the gateway answered with status ", response.status, ": ",
                              std::string_view(response.body).substr(0, kForeignBodyShown));
    return error;
  }
  const auto text = [](const Object& object, std::string_view name) -> std::string {
    const Value* value = object.if_contains(name);
    const bool string = value != nullptr && value->is_string();
    return string ? std::string(std::string_view(value->get_string())) : "";
  };
  const Object& fields = node->get_object();
  const std::string code = text(fields, "code");
  error.message = text(fields, "message");
  if (!base::parse_error_code(code, error.code)) {
    error.code = ErrorCode::internal;
    error.message = base::cat(code, ": ", error.message);
  }
  const Value* details = fields.if_contains("details");
  if (details != nullptr && details->is_object()) {
    for (const auto& [key, value] : details->get_object()) {
      error.details.emplace_back(std::string_view(key),
                                 value.is_string()
                                     ? std::string(std::string_view(value.get_string()))
                                     : wire::json::serialize(value));
    }
  }
  return error;
}

std::string encode_segment(std::string_view text) {
  std::string out;
  for (const char c : base::percent_encode(text)) {
    if (c == '/') {
      out += "%2F";
    } else {
      out += c;
    }
  }
  return out;
}

void add_parameter(std::string& query, std::string_view key, std::string_view value) {
  query += base::cat(query.empty() ? "" : "&", key, "=", encode_segment(value));
}

}  // namespace cli
