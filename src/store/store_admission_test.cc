#include <gtest/gtest.h>

#include "store/store_testing.h"

namespace store {
namespace {

using base::ErrorCode;
using model::SandboxState;

class StoreAdmission : public StoreTest {
 protected:
  void put_team(const std::string& name, std::optional<int64_t> quota_sandboxes,
                bool reclaim = false) {
    Team team;
    team.name = name;
    team.quota_sandboxes = quota_sandboxes;
    team.reclaim = reclaim;
    ASSERT_TRUE(store().put_team(team).has_value());
  }
  Result<Inserted> try_create(const std::string& team, const std::string& id) {
    Sandbox row;
    row.id = id;
    row.owner = "somebody";
    row.image = "demo:latest";
    row.resources = {.millicpus = 1000, .memory_mb = 64, .storage_mb = 64};
    row.created_ms = ++now_ms_;
    row.max_lifetime_sec = 100;
    return store().insert_sandbox(team, row, {{.at_ms = now_ms_, .type = "created"}}, std::nullopt,
                                  std::nullopt, rules_);
  }
  SandboxState create(const std::string& team, const std::string& id) {
    const auto made = try_create(team, id);
    EXPECT_TRUE(made.has_value()) << made.error().message;
    return made ? made->sandbox.state : SandboxState::deleted;
  }
  void remove(const std::string& team, const std::string& id) {
    const StateChange gone{.from = {SandboxState::queued, SandboxState::starting,
                                    SandboxState::ready, SandboxState::failed},
                           .to = SandboxState::deleted};
    EXPECT_TRUE(store().set_state(team, id, gone)->applied);
  }
  std::vector<std::string> admit() {
    const auto decided = store().admit_queued(rules_, ++now_ms_);
    EXPECT_TRUE(decided.has_value()) << decided.error().message;
    std::vector<std::string> out;
    for (const Sandbox& row : decided->admitted) {
      out.push_back(row.id);
    }
    return out;
  }
  std::vector<std::string> events(const std::string& team, const std::string& id) {
    std::vector<std::string> out;
    for (const Event& event : *store().list_events(team, id, 0, 100)) {
      out.push_back(event.type);
    }
    return out;
  }

  AdmissionRules rules_;
  int64_t now_ms_ = 1'000'000;
};

INSTANTIATE_TEST_SUITE_P(Engines, StoreAdmission,
                         testing::Values(StoreEngine::sqlite, StoreEngine::postgresql),
                         engine_name);

using Ids = std::vector<std::string>;

TEST_P(StoreAdmission, a_team_without_limits_waits_for_nothing) {
  const auto made = try_create("default", "sbx-1");
  ASSERT_TRUE(made.has_value());
  const auto row = *store().find_sandbox("default", "sbx-1");
  EXPECT_EQ(row.state, SandboxState::starting);
  EXPECT_TRUE(row.holds_quota);
  EXPECT_EQ(row.admitted_ms, row.created_ms);
  EXPECT_EQ(row.max_lifetime_ms, row.created_ms + 100'000);
  EXPECT_EQ(row.start_deadline_ms, row.created_ms + 1'800'000);
  EXPECT_EQ(made->sandbox.admitted_ms, row.admitted_ms);
  EXPECT_EQ(events("default", "sbx-1"), (Ids{"created", "admitted"}));
}

TEST_P(StoreAdmission, why_one_waits_is_in_its_row_as_long_as_it_does) {
  put_team("a", 1);
  const auto message = [this](const std::string& id) {
    return store().find_sandbox("a", id, true)->message;
  };
  create("a", "sbx-1");
  const auto second = try_create("a", "sbx-2");
  EXPECT_EQ(second->sandbox.message, message("sbx-2"));
  EXPECT_TRUE(message("sbx-2").starts_with("sandboxes: 1 wanted, 0 free")) << message("sbx-2");
  create("a", "sbx-3");
  EXPECT_EQ(message("sbx-3"), "");  // others come before it: its place says so
  remove("a", "sbx-1");
  EXPECT_EQ(admit(), Ids{"sbx-2"});
  EXPECT_EQ(message("sbx-2"), "");
  admit();
  EXPECT_NE(message("sbx-3"), "");
  remove("a", "sbx-3");
  EXPECT_EQ(message("sbx-3"), "");
}

TEST_P(StoreAdmission, a_team_that_owns_nothing_waits_for_what_others_lend) {
  put_team("a", 0);
  put_team("b", 1);
  EXPECT_EQ(create("b", "sbx-1"), SandboxState::starting);
  EXPECT_EQ(create("a", "sbx-2"), SandboxState::queued);
  EXPECT_EQ(admit(), Ids{});
  remove("b", "sbx-1");
  EXPECT_EQ(admit(), Ids{"sbx-2"});
  const auto quotas = store().quotas();
  EXPECT_EQ(quotas->teams.at(0).nominal.at(3), 0);
}

TEST_P(StoreAdmission, what_does_not_fit_is_queued_and_admitted_in_order) {
  put_team("a", 2);
  EXPECT_EQ(create("a", "sbx-9"), SandboxState::starting);
  EXPECT_EQ(create("a", "sbx-8"), SandboxState::starting);
  EXPECT_EQ(create("a", "sbx-7"), SandboxState::queued);
  EXPECT_EQ(create("a", "sbx-6"), SandboxState::queued);
  EXPECT_EQ(create("a", "sbx-5"), SandboxState::queued);
  EXPECT_EQ(admit(), Ids{});
  remove("a", "sbx-9");
  EXPECT_EQ(admit(), Ids{"sbx-7"});
  remove("a", "sbx-6");  // a queued one: frees nothing
  EXPECT_EQ(admit(), Ids{});
  remove("a", "sbx-8");
  EXPECT_EQ(admit(), Ids{"sbx-5"});
  EXPECT_EQ(events("a", "sbx-5"), (Ids{"created", "queued", "admitted"}));
  const auto row = *store().find_sandbox("a", "sbx-5");
  EXPECT_EQ(row.queued_ms, row.admitted_ms - row.created_ms);
  EXPECT_GT(row.queue_deadline_ms, row.created_ms);
}

TEST_P(StoreAdmission, a_failed_one_holds_its_quota_until_it_is_released_once) {
  put_team("a", 1);
  create("a", "sbx-1");
  create("a", "sbx-2");
  ASSERT_TRUE(
      store()
          .set_state("a", "sbx-1", {.from = {SandboxState::starting}, .to = SandboxState::failed})
          ->applied);
  EXPECT_EQ(admit(), Ids{});
  EXPECT_EQ(store().release_quota("a", "sbx-1"), true);
  EXPECT_EQ(store().release_quota("a", "sbx-1"), false);
  EXPECT_EQ(admit(), Ids{"sbx-2"});
  remove("a", "sbx-1");
  EXPECT_EQ(store().quotas()->used["a"][3], 1);
}

TEST_P(StoreAdmission, release_is_only_of_failed_ones) {
  put_team("a", 1);
  create("a", "sbx-1");
  EXPECT_EQ(store().release_quota("a", "sbx-1"), false);
  EXPECT_EQ(store().quotas()->used["a"], (model::Amounts{1000, 64, 64, 1}));
}

TEST_P(StoreAdmission, quotas_tell_what_is_used_and_queued) {
  put_team("a", 1);
  put_team("b", 1);
  create("a", "sbx-1");
  create("a", "sbx-2");  // borrowed from b
  create("a", "sbx-3");
  const auto quotas = *store().quotas();
  EXPECT_EQ(quotas.used.at("a"), (model::Amounts{2000, 128, 128, 2}));
  EXPECT_EQ(quotas.queued.at("a"), 1);
  ASSERT_EQ(quotas.teams.size(), 3U);
  EXPECT_EQ(quotas.teams[0].nominal[3], 1);
  EXPECT_EQ(quotas.teams[0].nominal[0], std::nullopt);
}

TEST_P(StoreAdmission, an_owner_gets_back_what_was_borrowed) {
  put_team("a", 1);
  put_team("b", 1, true);
  create("a", "sbx-1");
  create("a", "sbx-2");
  const auto made = try_create("b", "sbx-3");
  ASSERT_TRUE(made.has_value());
  EXPECT_EQ(made->sandbox.state, SandboxState::queued);
  ASSERT_EQ(made->admission.reclaimed.size(), 1U);
  EXPECT_EQ(made->admission.reclaimed[0].id, "sbx-2");
  const auto ended = *store().find_sandbox("a", "sbx-2");
  EXPECT_EQ(ended.state, SandboxState::failed);
  EXPECT_EQ(ended.reason, "preempted");
  EXPECT_EQ(events("a", "sbx-2").back(), "failed");
  EXPECT_EQ(admit(), Ids{});  // until the engine has removed it; and no second one is ended
  EXPECT_EQ(store().find_sandbox("a", "sbx-1")->state, SandboxState::starting);
  EXPECT_EQ(store().release_quota("a", "sbx-2"), true);
  EXPECT_EQ(admit(), Ids{"sbx-3"});
}

TEST_P(StoreAdmission, the_operators_total_queues_any_team) {
  rules_.total[3] = 1;
  EXPECT_EQ(create("default", "sbx-1"), SandboxState::starting);
  EXPECT_EQ(create("default", "sbx-2"), SandboxState::queued);
  rules_.total[3] = std::nullopt;
  // Nobody overtakes the one that waits.
  EXPECT_EQ(create("default", "sbx-3"), SandboxState::queued);
  EXPECT_EQ(admit(), (Ids{"sbx-2", "sbx-3"}));
}

TEST_P(StoreAdmission, a_queue_longer_than_what_is_read_at_once_is_admitted_whole) {
  rules_.total[3] = 1;
  create("default", "sbx-0");
  Ids expected;
  for (int i = 1; i <= 200; ++i) {
    expected.push_back(base::cat("sbx-", i));
    ASSERT_EQ(create("default", expected.back()), SandboxState::queued);
  }
  rules_.total[3] = 1000;
  EXPECT_EQ(admit(), expected);
}

TEST_P(StoreAdmission, what_can_never_fit_does_not_hide_what_is_behind_it) {
  rules_.total[0] = 100'000;
  create("default", "sbx-0");
  rules_.total[0] = 1'000;
  for (int i = 1; i <= 150; ++i) {
    create("default", base::cat("sbx-", i));
  }
  rules_.total[0] = 500;  // none of these fits ever
  ASSERT_TRUE(store()
                  .database()
                  .execute("UPDATE sandboxes SET millicpus = 500 WHERE id = 'sbx-150'")
                  .has_value());
  remove("default", "sbx-0");
  EXPECT_EQ(admit(), Ids{"sbx-150"});
}

TEST_P(StoreAdmission, a_drained_team_makes_nothing) {
  EXPECT_EQ(store().set_drained("nobody", true, 1).error().code, ErrorCode::not_found);
  EXPECT_EQ(store().set_drained("default", true, 1), true);
  EXPECT_EQ(store().set_drained("default", true, 2), false);
  EXPECT_EQ(store().drained_teams(), std::set<std::string>{"default"});
  EXPECT_EQ(try_create("default", "sbx-1").error().code, ErrorCode::draining);
  EXPECT_EQ(store().set_drained("default", false, 3), true);
  EXPECT_EQ(create("default", "sbx-1"), SandboxState::starting);
}

TEST_P(StoreAdmission, deadlines_move_with_the_clock) {
  create("default", "sbx-1");
  const auto before = *store().find_sandbox("default", "sbx-1");
  ASSERT_TRUE(store().shift_deadlines(-5'000).has_value());
  const auto after = *store().find_sandbox("default", "sbx-1");
  EXPECT_EQ(after.start_deadline_ms, before.start_deadline_ms - 5'000);
  EXPECT_EQ(after.max_lifetime_ms, before.max_lifetime_ms - 5'000);
  EXPECT_EQ(after.lease_expires_ms, 0);
  EXPECT_EQ(after.created_ms, before.created_ms);
}

TEST_P(SqliteStoreTest, what_is_used_is_summed_up_from_an_index) {
  auto statement = store().database().prepare(
      "EXPLAIN QUERY PLAN SELECT team, SUM(millicpus) FROM sandboxes WHERE holds_quota GROUP BY "
      "team");
  ASSERT_TRUE(statement && *statement->step());
  EXPECT_NE(statement->get_text(3).find("COVERING INDEX sandboxes_held"), std::string::npos)
      << statement->get_text(3);
}

TEST_P(StoreAdmission, a_server_tells_its_time_and_a_file_has_none) {
  const auto told = store().server_time_ms();
  ASSERT_TRUE(told.has_value()) << told.error().message;
  EXPECT_EQ(told->has_value(), GetParam() == StoreEngine::postgresql);
  constexpr int64_t kYear2020 = 1'577'836'800'000;
  EXPECT_GT(told->value_or(kYear2020 + 1), kYear2020);
}

}  // namespace
}  // namespace store
