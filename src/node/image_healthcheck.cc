#include "node/image_healthcheck.h"

#include <algorithm>

#include "wire/json.h"

namespace node {
namespace {

using wire::json::Object;
using wire::json::Value;

constexpr int64_t kNanosecondsPerMs = 1'000'000;
constexpr int64_t kDurationMsMax = int64_t{7} * 24 * 3600 * 1000;  // as wire::parse_healthcheck
constexpr int64_t kRetriesMax = 10'000;

// 0 and what is missing: `usual`.
int64_t number(const Object& check, std::string_view name, int64_t unit, int64_t usual,
               int64_t most) {
  const Value* const value = check.if_contains(name);
  const int64_t given = value != nullptr && value->is_int64() ? value->get_int64() / unit : 0;
  return given <= 0 ? usual : std::min(given, most);
}

// No words: none that can be run.
std::vector<std::string> words_of(const Value* test) {
  std::vector<std::string> words;
  if (test == nullptr || !test->is_array()) {
    return words;
  }
  for (const Value& word : test->get_array()) {
    if (!word.is_string() || std::string_view(word.get_string()).contains('\0')) {
      return {};
    }
    words.emplace_back(word.get_string());
  }
  const std::string kind = words.empty() ? "" : words.front();
  if (kind == "CMD-SHELL" && words.size() == 2) {
    return {"/bin/sh", "-c", words[1]};
  }
  if (kind != "CMD") {
    return {};
  }
  words.erase(words.begin());
  return words;
}

}  // namespace

std::optional<model::Healthcheck> image_healthcheck(std::string_view more_json) {
  const auto more = wire::json::parse_object(more_json);
  const Value* const found = more ? more->if_contains("healthcheck") : nullptr;
  if (found == nullptr || !found->is_object()) {
    return std::nullopt;
  }
  const Object& given = found->get_object();
  model::Healthcheck check;
  check.argv = words_of(given.if_contains("Test"));
  if (check.argv.empty()) {
    return std::nullopt;
  }
  const auto duration = [&](std::string_view name, int64_t usual) {
    return number(given, name, kNanosecondsPerMs, usual, kDurationMsMax);
  };
  check.interval_ms = duration("Interval", check.interval_ms);
  check.timeout_ms = duration("Timeout", check.timeout_ms);
  check.start_period_ms = duration("StartPeriod", check.start_period_ms);
  check.start_interval_ms = duration("StartInterval", check.start_interval_ms);
  check.retries = number(given, "Retries", 1, check.retries, kRetriesMax);
  return check;
}

}  // namespace node
