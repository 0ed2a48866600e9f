// A connection of libpq, opened the one way that all of this program's are.
#pragma once

#include <libpq-fe.h>

#include <memory>
#include <string_view>

#include "base/error.h"
#include "store/store_url.h"

namespace store {

struct FinishPostgres {
  void operator()(PGconn* connection) const { PQfinish(connection); }
};
using PostgresHandle = std::unique_ptr<PGconn, FinishPostgres>;

// The first line of what libpq says; the others repeat values or say where to read on.
std::string_view first_line(const char* text);

// Blocks, at most as long as the URL's connect_timeout for each host. unavailable.
Result<PostgresHandle> connect_postgres(const StoreUrl& url);

}  // namespace store
