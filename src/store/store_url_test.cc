#include "store/store_url.h"

#include <gtest/gtest.h>

namespace store {
namespace {

TEST(StoreUrl, paths_and_sqlite_urls_are_files) {
  EXPECT_EQ(parse_store_url("/var/lib/x.db")->target, "/var/lib/x.db");
  EXPECT_EQ(parse_store_url("x.db")->target, "x.db");
  const auto url = parse_store_url("sqlite:///var/lib/x.db");
  ASSERT_TRUE(url.has_value());
  EXPECT_EQ(url->engine, StoreEngine::sqlite);
  EXPECT_EQ(url->target, "/var/lib/x.db");
}

TEST(StoreUrl, postgresql_urls_go_to_libpq_and_show_no_password) {
  const auto url =
      parse_store_url("postgresql://me:hunter2@db.example:5433/sandboxes?sslmode=require");
  ASSERT_TRUE(url.has_value()) << url.error().message;
  EXPECT_EQ(url->engine, StoreEngine::postgresql);
  EXPECT_NE(url->target.find("hunter2"), std::string::npos);
  EXPECT_EQ(url->shown, "postgresql://me@db.example:5433/sandboxes");
  EXPECT_EQ(parse_store_url("postgres://a,b/db")->shown, "postgresql://a,b/db");
}

TEST(StoreUrl, what_is_none_is_refused_without_repeating_it) {
  for (const char* url :
       {"", "sqlite://", "sqlite://x.db", "mysql://me:hunter2@host/db",
        "postgresql://me:%hunter2@host/db", "postgresql://host/db?nonsense=hunter2",
        "postgresql://host/db?password=hunter2"}) {
    const auto parsed = parse_store_url(url);
    ASSERT_FALSE(parsed.has_value()) << url;
    EXPECT_EQ(parsed.error().code, base::ErrorCode::invalid_field);
    EXPECT_EQ(parsed.error().message.find("hunter2"), std::string::npos) << parsed.error().message;
  }
}

}  // namespace
}  // namespace store
