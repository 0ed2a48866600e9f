#include "store/store_url.h"

#include <libpq-fe.h>

#include <memory>

namespace store {
namespace {

constexpr std::string_view kForms =
    "the store is a path, sqlite:///PATH or postgresql://USER@HOST:PORT/DATABASE";

// What libpq makes of the URL, without the password. Its own message about a URL that it cannot
// read is not used: it may repeat any part of it.
Result<std::string> shown_of(const std::string& url) {
  char* message = nullptr;
  const std::unique_ptr<PQconninfoOption, decltype(&PQconninfoFree)> options(
      PQconninfoParse(url.c_str(), &message), &PQconninfoFree);
  PQfreemem(message);
  if (!options) {
    return base::fail_field("store", kForms, "; this postgresql:// URL cannot be read (is '%', '@'",
                            " or '/' in a password percent-encoded?)");
  }
  std::string user;
  std::string host;
  std::string port;
  std::string database;
  for (const PQconninfoOption* option = options.get(); option->keyword != nullptr; ++option) {
    const std::string_view keyword = option->keyword;
    const std::string value = option->val == nullptr ? "" : option->val;
    if (keyword == "user") {
      user = value.empty() ? "" : value + "@";
    } else if (keyword == "host") {
      host = value;
    } else if (keyword == "port") {
      // Of several hosts without ports it is as many commas.
      port = value.find_first_not_of(',') == std::string::npos ? "" : ":" + value;
    } else if (keyword == "dbname") {
      database = value.empty() ? "" : "/" + value;
    }
  }
  return base::cat("postgresql://", user, host, port, database);
}

}  // namespace

Result<StoreUrl> parse_store_url(std::string_view url) {
  constexpr std::string_view kSqlite = "sqlite://";
  if (url.starts_with("postgresql://") || url.starts_with("postgres://")) {
    if (url.find("password=") != std::string_view::npos) {
      return base::fail_field("store", "a password of the store stands before the '@' of its URL, ",
                              "in PGPASSWORD or in a passfile, not behind '?'");
    }
    std::string target(url);
    ASSIGN_OR_RETURN(std::string shown, shown_of(target));
    return StoreUrl{
        .engine = StoreEngine::postgresql, .target = std::move(target), .shown = std::move(shown)};
  }
  const bool is_url = url.starts_with(kSqlite);
  if (is_url) {
    url.remove_prefix(kSqlite.size());
  }
  // "sqlite://name" would have a host.
  if (url.empty() || url.find("://") != std::string_view::npos ||
      (is_url && !url.starts_with('/')) || url.find('\0') != std::string_view::npos) {
    return base::fail_field("store", kForms);
  }
  return StoreUrl{.target = std::string(url), .shown = std::string(url)};
}

}  // namespace store
