#include <gtest/gtest.h>

#include "store/store_testing.h"

namespace store {
namespace {

using base::ErrorCode;

class StoreBuilds : public StoreTest {
 protected:
  static Build row(const std::string& id, const std::string& digest, int64_t created_ms = 1000) {
    return {.id = id,
            .team = std::string(kTeam),
            .owner = "amy",
            .digest = digest,
            .builder = "builder-1",
            .created_ms = created_ms,
            .claimed_by = "here",
            .claimed_until_ms = created_ms + 10};
  }
  Result<bool> end(Build build, const std::string& state, int64_t ended_ms) {
    build.state = state;
    build.ended_ms = ended_ms;
    return store().update_build(build);
  }
};

TEST_P(StoreBuilds, a_digest_is_under_way_once) {
  const auto first = store().insert_build(row("build-1", "d"), 2);
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(store().insert_build(row("build-2", "d"), 2)->id, "build-1");
  EXPECT_TRUE(store().insert_build(row("build-3", "e"), 2));
  EXPECT_EQ(store().insert_build(row("build-4", "f"), 2).error().code, ErrorCode::overloaded);
  EXPECT_TRUE(*end(*first, "failed", 2000));
  EXPECT_EQ(store().insert_build(row("build-5", "d"), 2)->id, "build-5");
}

TEST_P(StoreBuilds, an_end_is_written_once_and_of_ended_ones_only_successes_are_known) {
  const Build build = *store().insert_build(row("build-1", "d"), 9);
  EXPECT_EQ(store().find_build_of_digest(kTeam, "d")->state, "queued");
  EXPECT_TRUE(*end(build, "cancelled", 2000));
  EXPECT_FALSE(*end(build, "succeeded", 2001));
  EXPECT_EQ(store().find_build(kTeam, "build-1")->state, "cancelled");
  EXPECT_EQ(store().find_build_of_digest(kTeam, "d").error().code, ErrorCode::not_found);
  EXPECT_EQ(store().find_build("other", "build-1").error().code, ErrorCode::not_found);
  const Build again = *store().insert_build(row("build-2", "d", 3000), 9);
  EXPECT_TRUE(*end(again, "succeeded", 4000));
  EXPECT_EQ(store().find_build_of_digest(kTeam, "d")->id, "build-2");
  EXPECT_EQ(*store().builder_used_ms("builder-1"), 4000);
}

TEST_P(StoreBuilds, what_nobody_drives_any_more_is_taken_over_by_one) {
  ASSERT_TRUE(store().insert_build(row("build-1", "d"), 9));
  EXPECT_FALSE(*store().claim_build("build-1", "there", 1005, 2000));
  ASSERT_TRUE(store().renew_build_claims("here", 1100));
  EXPECT_FALSE(*store().claim_build("build-1", "there", 1050, 2000));
  EXPECT_TRUE(*store().claim_build("build-1", "there", 1101, 2000));
  EXPECT_FALSE(*store().claim_build("build-1", "third", 1102, 2000));
  EXPECT_EQ(store().builds_under_way()->front().claimed_by, "there");
}

TEST_P(StoreBuilds, lists_go_page_by_page_and_old_ones_are_forgotten_with_their_logs) {
  for (int i = 0; i < 5; ++i) {
    const Build build = *store().insert_build(row(base::cat("build-", i), base::cat(i), i), 9);
    ASSERT_TRUE(*end(build, i == 4 ? "failed" : "succeeded", 100 + i));
    ASSERT_TRUE(store().put_build_log(build.id, "log"));
  }
  const std::vector<std::string> own{std::string(kTeam)};
  const auto page = store().list_builds(own, "", 3, "");
  ASSERT_EQ(page->items.size(), 3U);
  EXPECT_EQ(page->items.front().id, "build-4");
  const auto rest = store().list_builds(own, "", 3, page->next_cursor);
  ASSERT_EQ(rest->items.size(), 2U);
  EXPECT_EQ(rest->next_cursor, "");
  EXPECT_EQ(store().list_builds(own, "failed", 3, "")->items.size(), 1U);
  EXPECT_EQ(store().list_builds(std::vector<std::string>{"other"}, "", 3, "")->items.size(), 0U);
  EXPECT_EQ(store().list_builds(own, "", 3, "x").error().code, ErrorCode::invalid_field);
  EXPECT_EQ(*store().forget_builds_before(102, 10), 2);
  EXPECT_EQ(*store().find_build_log("build-1"), "");
  EXPECT_EQ(*store().find_build_log("build-2"), "log");
}

INSTANTIATE_TEST_SUITE_P(Engines, StoreBuilds,
                         testing::Values(StoreEngine::sqlite, StoreEngine::postgresql),
                         engine_name);

}  // namespace
}  // namespace store
