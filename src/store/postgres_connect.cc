#include "store/postgres_connect.h"

#include <array>
#include <utility>
#include <vector>

namespace store {
namespace {

// Defaults that the URL may override, in libpq's words: a host that vanished is noticed within
// about ten seconds, and of several hosts the one that takes writes is used.
constexpr std::array<std::pair<const char*, const char*>, 8> kDefaults{{
    {"connect_timeout", "5"},
    {"keepalives_idle", "5"},
    {"keepalives_interval", "2"},
    {"keepalives_count", "3"},
    {"tcp_user_timeout", "10000"},
    {"application_name", "sandbox-gateway"},
    {"target_session_attrs", "read-write"},
    {"gssencmode", "disable"},
}};

}  // namespace

std::string_view first_line(const char* text) {
  const std::string_view all = text == nullptr ? "" : text;
  return base::trim(all.substr(0, all.find('\n')));
}

Result<PostgresHandle> connect_postgres(const StoreUrl& url) {
  std::vector<const char*> keys;
  std::vector<const char*> values;
  const auto add = [&](const char* key, const char* value) {
    keys.push_back(key);
    values.push_back(value);
  };
  for (const auto& [key, value] : kDefaults) {
    add(key, value);
  }
  add("dbname", url.target.c_str());  // the URL
  add("client_encoding", "UTF8");
  add(nullptr, nullptr);
  PostgresHandle handle(PQconnectdbParams(keys.data(), values.data(), 1));
  if (!handle || PQstatus(handle.get()) != CONNECTION_OK) {
    return base::fail(base::ErrorCode::unavailable, first_line(PQerrorMessage(handle.get())));
  }
  PQsetNoticeReceiver(handle.get(), [](void*, const PGresult*) {}, nullptr);
  return handle;
}

}  // namespace store
