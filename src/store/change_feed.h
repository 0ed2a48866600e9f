// ChangeFeed: what other programs on the same PostgreSQL database have changed, told by its NOTIFY
// when they commit, so within milliseconds. A connection of its own, made anew where it is lost;
// what was changed meanwhile is not told: then `missed` says that everything is to be read again.
// Used by one thread at a time, but for interrupt().
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "store/postgres_connect.h"

namespace store {

// Kinds of notices. A sandbox's have its id; of the others all rows are meant.
namespace notice {
inline constexpr std::string_view kSandbox = "sandbox";
inline constexpr std::string_view kTeams = "teams";
inline constexpr std::string_view kTokens = "tokens";  // and sign-ins
inline constexpr std::string_view kTokenLimits = "limits";
inline constexpr std::string_view kRegistries = "registries";
inline constexpr std::string_view kIdentityKeys = "identity-keys";
inline constexpr std::string_view kReplicas = "replicas";
}  // namespace notice

// The channel of the database, and what is sent over it: the writer's name and behind it the
// notices, separated by spaces.
inline constexpr std::string_view kChangeChannel = "sandbox_gateway";

struct Notice {
  std::string kind;
  std::string id;
  bool operator==(const Notice&) const = default;
};

class ChangeFeed {
 public:
  // `own`: the writer whose changes are not told. Of a URL of PostgreSQL.
  static Result<ChangeFeed> open(const std::string& url, std::string own);

  struct News {
    bool missed = false;  // it was not listened for a while, or never before
    std::vector<Notice> notices;
  };
  // Blocks until there is news or interrupt() is called (nothing is new then). unavailable.
  Result<News> next();
  // Of any thread: ends the present or the next call.
  void interrupt();

 private:
  ChangeFeed(StoreUrl url, std::string own, base::Fd wake)
      : url_(std::move(url)), own_(std::move(own)), wake_(std::move(wake)) {}
  Result<void> listen();
  void take(std::string_view payload, News& news) const;

  StoreUrl url_;
  std::string own_;
  base::Fd wake_;  // eventfd
  PostgresHandle handle_;
};

}  // namespace store
