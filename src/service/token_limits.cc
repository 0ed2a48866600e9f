#include "service/token_limits.h"

#include "wire/json.h"

namespace service {
namespace {

using base::Result;
using net::Task;

// More than anybody needs, and far from what overflows.
constexpr int64_t kLimitMax = 1'000'000;

}  // namespace

Result<TokenLimits> parse_token_limits(const std::string& body) {
  ASSIGN_OR_RETURN(const auto object, wire::json::parse_object(body));
  wire::json::Reader reader(object);
  TokenLimits limits;
  const std::initializer_list<std::pair<std::string_view, std::optional<int64_t>*>> fields{
      {"requests_per_sec", &limits.requests_per_sec},
      {"burst", &limits.burst},
      {"concurrent_creates", &limits.concurrent_creates},
      {"concurrent_streams", &limits.concurrent_streams},
      {"body_mb", &limits.body_mb}};
  for (const auto& [name, field] : fields) {
    ASSIGN_OR_RETURN(*field, reader.optional<int64_t>(name));
    if (*field && (**field < 0 || **field > kLimitMax)) {
      return base::fail_field(name, "'", name, "' must be an integer from 0 (no limit) to ",
                              kLimitMax);
    }
  }
  RETURN_IF_ERROR(reader.finish());
  return limits;
}

Task<Result<void>> TokenLimitTable::load() {
  auto read = [this] { return context_.store.list_token_limits(); };
  CO_ASSIGN_OR_RETURN(const auto rows, co_await context_.pool.run(std::move(read)));
  std::map<std::string, TokenLimits> found(rows.begin(), rows.end());
  for (const auto& [id, limits] : known_) {
    if (!found.contains(id)) {
      limiter_.set(id, std::nullopt);
    }
  }
  for (const auto& [id, limits] : found) {
    const auto before = known_.find(id);
    if (before == known_.end() || before->second != limits) {
      limiter_.set(id, limits);
    }
  }
  known_ = std::move(found);
  co_return Result<void>{};
}

Task<void> TokenLimitTable::run() {
  for (;;) {
    const auto wake = co_await context_.loop.sleep_until(net::Deadline::after(kRefreshInterval));
    if (wake == net::EventLoop::Wake::cancelled) {
      co_return;
    }
    if (const auto loaded = co_await load(); !loaded) {
      context_.log.error("limits of tokens could not be read", {{"error", loaded.error().message}});
    }
  }
}

Task<Result<TokenLimits>> TokenLimitTable::find(std::string token_id) {
  auto read = [this, &token_id] { return context_.store.find_token_limits(token_id); };
  co_return co_await context_.pool.run(std::move(read));
}

Task<Result<TokenLimits>> TokenLimitTable::put(std::string token_id, std::string body) {
  CO_ASSIGN_OR_RETURN(const TokenLimits limits, parse_token_limits(body));
  auto write = [this, &token_id, &limits] {
    return context_.store.put_token_limits(token_id, limits);
  };
  CO_RETURN_IF_ERROR(co_await context_.pool.run(std::move(write)));
  known_[token_id] = limits;
  limiter_.set(token_id, limits);
  co_return limits;
}

Task<Result<void>> TokenLimitTable::remove(std::string token_id) {
  auto write = [this, &token_id]() -> Result<void> {
    RETURN_IF_ERROR(context_.store.find_token_limits(token_id));
    return context_.store.delete_token_limits(token_id);
  };
  CO_RETURN_IF_ERROR(co_await context_.pool.run(std::move(write)));
  known_.erase(token_id);
  limiter_.set(token_id, std::nullopt);
  co_return Result<void>{};
}

}  // namespace service
