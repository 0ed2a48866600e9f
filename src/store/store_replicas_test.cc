#include <gtest/gtest.h>

#include <thread>

#include "store/change_feed.h"
#include "store/store_testing.h"

namespace store {
namespace {

using model::SandboxState;
using Notices = std::vector<Notice>;

class StoreReplicas : public StoreTest {};
class ChangeFeedTest : public StoreTest {
 protected:
  // What the feed of another program hears until there was a change of the token limits.
  static Notices until_limits(ChangeFeed& feed) {
    Notices out;
    for (;;) {
      auto news = feed.next();
      if (!news) {
        ADD_FAILURE() << news.error().message;
        return out;
      }
      for (Notice& notice : news->notices) {
        if (notice.kind == notice::kTokenLimits) {
          return out;
        }
        out.push_back(std::move(notice));
      }
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Engines, StoreReplicas,
                         testing::Values(StoreEngine::sqlite, StoreEngine::postgresql),
                         engine_name);
INSTANTIATE_TEST_SUITE_P(Postgresql, ChangeFeedTest, testing::Values(StoreEngine::postgresql),
                         engine_name);

TEST_P(StoreReplicas, a_beat_renews_a_row_makes_a_lost_one_and_forgets_the_old) {
  const Replica a{.id = "rep-a", .address = "a:1", .version = "1", .heartbeat_ms = 1'000};
  ASSERT_TRUE(store().put_replica(a).has_value());
  Replica b{.id = "rep-b", .started_ms = 5, .heartbeat_ms = 2'000, .connections = 3};
  EXPECT_EQ(*store().beat(b, 500), (std::vector{a, b}));
  b.heartbeat_ms = 9'000;
  EXPECT_EQ(*store().beat(b, 5'000), (std::vector{b}));
  EXPECT_EQ(*store().list_replicas(), (std::vector{b}));
  ASSERT_TRUE(store().remove_replica("rep-b").has_value());
  EXPECT_TRUE(store().list_replicas()->empty());
}

TEST_P(StoreReplicas, work_is_taken_over_once_and_what_needs_none_stays) {
  for (const auto& [id, state] :
       {std::pair("sbx-1", SandboxState::starting), std::pair("sbx-2", SandboxState::ready),
        std::pair("sbx-3", SandboxState::deleting)}) {
    Sandbox row = sandbox(id);
    row.state = state;
    row.replica = "rep-a";
    insert(row);
  }
  const auto taken = store().take_over("rep-a", "rep-b");
  ASSERT_TRUE(taken.has_value());
  ASSERT_EQ(taken->size(), 2U);
  EXPECT_EQ(taken->front().replica, "rep-b");
  EXPECT_TRUE(store().take_over("rep-a", "rep-c")->empty());
  EXPECT_EQ(store().find_sandbox(kTeam, "sbx-2")->replica, "rep-a");
}

TEST_P(StoreReplicas, a_starting_one_stays_with_who_starts_it) {
  Sandbox row = sandbox("sbx-1");
  row.replica = "rep-a";
  insert(row);
  StateChange change{.from = {SandboxState::starting, SandboxState::deleting},
                     .to = SandboxState::deleting,
                     .replica = "rep-b"};
  EXPECT_EQ(store().set_state(kTeam, "sbx-1", change)->sandbox.replica, "rep-a");
  EXPECT_EQ(store().set_state(kTeam, "sbx-1", change)->sandbox.replica, "rep-b");
}

TEST_P(StoreReplicas, a_lease_that_was_renewed_meanwhile_is_not_over) {
  Sandbox row = sandbox("sbx-1");
  row.state = SandboxState::ready;
  row.lease_expires_ms = 5'000;
  insert(row);
  StateChange change{
      .from = {SandboxState::ready}, .to = SandboxState::deleting, .lease_over_ms = 4'999};
  EXPECT_FALSE(store().set_state(kTeam, "sbx-1", change)->applied);
  change.lease_over_ms = 5'000;
  EXPECT_TRUE(store().set_state(kTeam, "sbx-1", change)->applied);
}

TEST_P(StoreReplicas, rows_are_found_by_many_ids_whatever_their_state) {
  std::vector<std::string> ids{"sbx-none"};
  for (int i = 0; i < 70; ++i) {
    ids.push_back(base::cat("sbx-", i));
    insert(sandbox(ids.back()));
  }
  EXPECT_EQ(store().find_sandboxes(ids)->size(), 70U);
  EXPECT_TRUE(store().find_sandboxes({}).value().empty());
}

TEST_P(StoreReplicas, a_ticket_is_taken_once_and_old_ones_make_room) {
  ASSERT_TRUE(store().put_ticket({.hash = "h1", .caller = "c", .expires_ms = 100}, 10, 1));
  EXPECT_EQ(
      store().put_ticket({.hash = "h2", .caller = "c", .expires_ms = 100}, 10, 1).error().code,
      base::ErrorCode::overloaded);
  ASSERT_TRUE(store().put_ticket({.hash = "h2", .caller = "d", .expires_ms = 200}, 100, 1));
  EXPECT_FALSE(store().take_ticket("h1")->has_value());
  EXPECT_EQ((*store().take_ticket("h2"))->caller, "d");
  EXPECT_FALSE(store().take_ticket("h2")->has_value());
}

TEST_P(StoreReplicas, a_fact_stays_as_it_was_first_told) {
  EXPECT_FALSE(store().find_fact("key")->has_value());
  ASSERT_TRUE(store().put_fact("key", "1").has_value());
  ASSERT_TRUE(store().put_fact("key", "2").has_value());
  EXPECT_EQ(*store().find_fact("key"), "1");
  ASSERT_TRUE(store().forget_fact("key").has_value());
  ASSERT_TRUE(store().put_fact("key", "2").has_value());
  EXPECT_EQ(*store().find_fact("key"), "2");
}

TEST_P(ChangeFeedTest, others_hear_of_what_is_committed_and_of_nothing_else) {
  auto feed = *ChangeFeed::open(url(), "somebody else");
  EXPECT_TRUE(feed.next()->missed);
  auto own = *ChangeFeed::open(url(), std::string(store().database().connection().writer()));
  EXPECT_TRUE(own.next()->missed);
  insert(sandbox("sbx-1"));
  const auto broken = [&]() -> Result<void> {
    store().database().note(notice::kSandbox, "sbx-rolled-back");
    return base::fail(base::ErrorCode::internal, "no");
  };
  EXPECT_FALSE(store().database().transaction(broken).has_value());
  ASSERT_TRUE(store().put_team({.name = "blue"}).has_value());
  ASSERT_TRUE(store().delete_token_limits("tok-none").has_value());
  EXPECT_EQ(until_limits(feed),
            (Notices{{.kind = "sandbox", .id = "sbx-1"}, {.kind = "teams", .id = ""}}));
  own.interrupt();
  EXPECT_TRUE(own.next()->notices.empty());
}

TEST_P(ChangeFeedTest, a_change_of_very_many_is_told_whole) {
  auto feed = *ChangeFeed::open(url(), "somebody else");
  EXPECT_TRUE(feed.next()->missed);
  constexpr size_t kMany = 1'000;
  const auto change = [&]() -> Result<void> {
    for (size_t i = 0; i < kMany; ++i) {
      store().database().note(notice::kSandbox, base::cat("sbx-abcdefghijklmnopqrst-", i));
    }
    return {};
  };
  ASSERT_TRUE(store().database().transaction(change).has_value());
  ASSERT_TRUE(store().delete_token_limits("tok-none").has_value());
  EXPECT_EQ(until_limits(feed).size(), kMany);
}

TEST_P(ChangeFeedTest, a_lost_connection_is_made_anew_and_says_that_something_was_missed) {
  auto feed = *ChangeFeed::open(url(), "somebody else");
  EXPECT_TRUE(feed.next()->missed);
  PostgresServer::get()->order("stop");
  EXPECT_FALSE(feed.next().has_value());
  EXPECT_FALSE(feed.next().has_value());
  PostgresServer::get()->order("start");
  const auto news = feed.next();
  ASSERT_TRUE(news.has_value()) << news.error().message;
  EXPECT_TRUE(news->missed);
}

}  // namespace
}  // namespace store
