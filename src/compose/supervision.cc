#include "compose/supervision.h"

#include "compose/refusal.h"
#include "compose/values.h"

namespace compose {

using base::Result;
using wire::json::Object;
using wire::json::Value;

namespace {

constexpr int64_t kRestartsMax = 1000;
constexpr int64_t kRetriesMax = 10'000;

// 0 means the default, as in an image.
model::Healthcheck with_defaults(model::Healthcheck check) {
  const model::Healthcheck usual;
  check.interval_ms = check.interval_ms == 0 ? usual.interval_ms : check.interval_ms;
  check.timeout_ms = check.timeout_ms == 0 ? usual.timeout_ms : check.timeout_ms;
  check.retries = check.retries == 0 ? usual.retries : check.retries;
  return check;
}

// No words: NONE.
Result<std::vector<std::string>> read_test(const Value& value, const std::string& field) {
  ASSIGN_OR_RETURN(std::vector<std::string> words, read_texts(value, field));
  if (!value.is_array()) {
    return std::vector<std::string>{"/bin/sh", "-c", std::move(words.front())};
  }
  const std::string kind = words.empty() ? "" : words.front();
  if (kind == "NONE" && words.size() == 1) {
    return std::vector<std::string>{};
  }
  if (kind == "CMD-SHELL" && words.size() == 2) {
    return std::vector<std::string>{"/bin/sh", "-c", std::move(words[1])};
  }
  if (kind == "CMD" && words.size() > 1) {
    words.erase(words.begin());
    return words;
  }
  return refuse(field, "must be a text, or a list of NONE, CMD and words, or CMD-SHELL and one");
}

}  // namespace

Result<std::optional<model::Healthcheck>> read_healthcheck(const Value& value,
                                                           const std::string& field) {
  ASSIGN_OR_RETURN(const Object* const entries, read_mapping(value, field));
  model::Healthcheck check;
  bool disabled = false;
  for (const auto& [key, inner] : *entries) {
    const std::string where = base::cat(field, ".", std::string_view(key));
    if (inner.is_null()) {
      continue;
    }
    if (key == "test") {
      ASSIGN_OR_RETURN(check.argv, read_test(inner, where));
      disabled = disabled || check.argv.empty();
    } else if (key == "interval") {
      ASSIGN_OR_RETURN(check.interval_ms, read_duration_ms(inner, where));
    } else if (key == "timeout") {
      ASSIGN_OR_RETURN(check.timeout_ms, read_duration_ms(inner, where));
    } else if (key == "start_period") {
      ASSIGN_OR_RETURN(check.start_period_ms, read_duration_ms(inner, where));
    } else if (key == "start_interval") {
      ASSIGN_OR_RETURN(check.start_interval_ms, read_duration_ms(inner, where));
    } else if (key == "retries") {
      ASSIGN_OR_RETURN(check.retries, read_integer(inner, where, 0, kRetriesMax));
    } else if (key == "disable") {
      ASSIGN_OR_RETURN(const bool off, read_bool(inner, where));
      disabled = disabled || off;
    } else {
      return refuse(where, "is not supported");
    }
  }
  if (disabled) {
    return std::nullopt;
  }
  if (check.argv.empty()) {
    return refuse(field + ".test", "is missing");
  }
  return with_defaults(std::move(check));
}

Result<void> read_restart(const Value& value, model::Service& service, const std::string& field) {
  ASSIGN_OR_RETURN(const std::string text, read_text(value, field));
  constexpr std::string_view kCounted = "on-failure:";
  if (text == "no" || text == "false") {
    service.restart = model::Restart::no;
  } else if (text == "always" || text == "unless-stopped") {
    service.restart = model::Restart::always;
  } else if (text == "on-failure") {
    service.restart = model::Restart::on_failure;
  } else if (text.starts_with(kCounted)) {
    service.restart = model::Restart::on_failure;
    ASSIGN_OR_RETURN(service.restarts_max,
                     read_integer(Value(text.substr(kCounted.size())), field, 0, kRestartsMax));
  } else {
    return refuse(field, "must be no, always, on-failure[:N] or unless-stopped");
  }
  return {};
}

Result<void> read_restart_policy(const Value& value, model::Service& service,
                                 const std::string& field) {
  ASSIGN_OR_RETURN(const Object* const entries, read_mapping(value, field));
  for (const auto& [key, inner] : *entries) {
    const std::string where = base::cat(field, ".", std::string_view(key));
    if (key == "condition") {
      ASSIGN_OR_RETURN(const std::string condition, read_text(inner, where));
      if (condition != "none" && condition != "any" && condition != "on-failure") {
        return refuse(where, "must be none, on-failure or any");
      }
      service.restart = condition == "none"  ? model::Restart::no
                        : condition == "any" ? model::Restart::always
                                             : model::Restart::on_failure;
    } else if (key == "max_attempts") {
      ASSIGN_OR_RETURN(service.restarts_max, read_integer(inner, where, 0, kRestartsMax));
    } else {
      return refuse(where, "is not supported");
    }
  }
  return {};
}

}  // namespace compose
