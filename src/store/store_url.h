// Where the store is: "sqlite:///path", a plain path, or "postgresql://user@host:port/database" as
// libpq takes it (several hosts, options behind '?'). A password in it is never shown again.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

namespace store {

using base::Result;

enum class StoreEngine { sqlite, postgresql };

struct StoreUrl {
  StoreEngine engine = StoreEngine::sqlite;
  std::string target;  // the file's path, or the whole URL for libpq: may hold a password
  std::string shown;   // for logs and messages
};

// invalid_field: of neither form; the message never repeats what was given.
Result<StoreUrl> parse_store_url(std::string_view url);

}  // namespace store
