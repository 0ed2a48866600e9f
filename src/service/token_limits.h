// Limits of single tokens: an admin sets them, the store keeps them, the limiter goes by them.
// Several gateways on one store see each other's changes within kRefreshInterval.
// Owned by main; loop thread only.
#pragma once

#include <string>

#include "service/context.h"
#include "service/limiter.h"

namespace service {

class TokenLimitTable {
 public:
  static constexpr std::chrono::seconds kRefreshInterval{10};

  TokenLimitTable(Context& context, Limiter& limiter) : context_(context), limiter_(limiter) {}

  // What the store has. Before requests are taken.
  net::Task<base::Result<void>> load();
  // Loads again and again until it is cancelled. Spawned by main.
  net::Task<void> run();

  // not_found: there is no such token.
  net::Task<base::Result<TokenLimits>> find(std::string token_id);
  // `body`: JSON of the limits that are its own. The others are the operator's from now on.
  net::Task<base::Result<TokenLimits>> put(std::string token_id, std::string body);
  net::Task<base::Result<void>> remove(std::string token_id);

 private:
  Context& context_;
  Limiter& limiter_;
  std::map<std::string, TokenLimits> known_;  // as the limiter has them
};

// Errors name the field.
base::Result<TokenLimits> parse_token_limits(const std::string& body);

}  // namespace service
