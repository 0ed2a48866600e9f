#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>

#include "base/sys.h"
#include "store/migrations.h"
#include "store/store_testing.h"

namespace store {
namespace {

using base::ErrorCode;
using model::SandboxState;

TEST_P(StoreTest, a_file_of_a_newer_program_is_refused) {
  ASSERT_TRUE(store().database().execute("INSERT INTO schema_version (version) VALUES (1000)"));
  close();
  const auto opened = Store::open(url());
  ASSERT_FALSE(opened.has_value());
  EXPECT_EQ(opened.error().code, ErrorCode::not_supported);
}

TEST_P(StoreTest, a_step_that_came_late_is_made_up_for) {
  // Two branches were merged in the other order than their numbers.
  const std::vector<Migration> all{
      {9001, "one", "CREATE TABLE one (a BIGINT)"},
      {9002, "two", "CREATE TABLE two (a BIGINT)"},
      {9003, "three", "CREATE TABLE three (a BIGINT)"},
  };
  std::vector<Migration> steps(migrations().begin(), migrations().end());
  steps.push_back(all[0]);
  steps.push_back(all[2]);
  EXPECT_EQ(migrate(store().database(), steps)->size(), 2U);
  steps.insert(steps.end() - 1, all[1]);
  const auto done = migrate(store().database(), steps);
  ASSERT_TRUE(done && done->size() == 1U);
  EXPECT_EQ(done->at(0).version, 9002);
  EXPECT_TRUE(store().database().execute("SELECT a FROM two"));
  EXPECT_TRUE(pending_migrations(store().database(), steps)->empty());
}

TEST_P(StoreTest, a_migration_that_fails_leaves_the_version_before_it) {
  std::vector<Migration> broken(migrations().begin(), migrations().end());
  broken.push_back({9001, "broken", "CREATE TABLE fine (a BIGINT); CREATE TABLE broken ("});
  EXPECT_FALSE(migrate(store().database(), broken).has_value());
  EXPECT_FALSE(store().database().execute("SELECT a FROM fine").has_value());
  EXPECT_TRUE(migrate(store().database(), migrations()).has_value());
}

TEST_P(StoreTest, quotas_of_an_older_program_keep_their_meaning) {
  constexpr int64_t kQuotaOfNothing = 11;
  std::vector<Migration> before;
  std::ranges::copy_if(migrations(), std::back_inserter(before),
                       [](const Migration& step) { return step.version < kQuotaOfNothing; });
  auto database = Database::open(make_database());
  ASSERT_TRUE(database.has_value());
  ASSERT_TRUE(migrate(*database, before).has_value());
  ASSERT_TRUE(database->execute(
      "UPDATE teams SET quota_millicpus = 2000, quota_sandboxes = 0 WHERE name = 'default'"));
  ASSERT_TRUE(migrate(*database, migrations()).has_value());
  auto read = database->prepare(
      "SELECT quota_millicpus, quota_memory_mb, quota_sandboxes "
      "FROM teams WHERE name = 'default'");
  ASSERT_TRUE(read.has_value());
  ASSERT_TRUE(read->step().value_or(false));
  EXPECT_EQ(read->get_int(0), 2000);
  EXPECT_TRUE(read->is_null(1));
  EXPECT_TRUE(read->is_null(2));  // 0 was no limit
}

TEST_P(StoreTest, what_was_answered_survives_kill_dash_nine) {
  close();
  auto pipe = *base::sys::make_pipe();
  const pid_t child = ::fork();
  if (child == 0) {
    auto opened = Store::open(url());
    for (int i = 0; opened && i < 20; ++i) {
      const auto inserted = (*opened)->insert_sandbox(kTeam, sandbox(base::cat("sbx-", i)),
                                                      {{.at_ms = 1, .type = "created"}});
      if (!inserted || ::write(pipe.second.get(), "x", 1) != 1) {
        ::_exit(1);
      }
    }
    ::pause();
  }
  char seen = 0;
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(::read(pipe.first.get(), &seen, 1), 1);
  }
  ::kill(child, SIGKILL);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  reopen();
  EXPECT_EQ(store().all_live_sandboxes()->size(), 20U);
  EXPECT_EQ(store().list_events(kTeam, "sbx-19", 0, 10)->size(), 1U);
}

// Interrupts, once, whatever runs when the budget of instructions is used up; not what follows a
// commit, since then it is done.
struct Fault {
  explicit Fault(sqlite3* database, int instructions) : native(database), left(instructions) {
    const auto count_down = [](void* self) {
      return static_cast<Fault*>(self)->left-- == 0 ? 1 : 0;
    };
    const auto disarm = [](void* self) {
      static_cast<Fault*>(self)->left = -1;
      return 0;
    };
    sqlite3_progress_handler(native, 1, count_down, this);
    sqlite3_commit_hook(native, disarm, this);
  }
  ~Fault() {
    sqlite3_progress_handler(native, 0, nullptr, nullptr);
    sqlite3_commit_hook(native, nullptr, nullptr);
  }
  sqlite3* native;
  int left;
};

TEST_P(SqliteStoreTest, a_commit_that_fails_leaves_nothing) {
  sqlite3_commit_hook(native(), [](void*) { return 1; }, nullptr);
  EXPECT_FALSE(store().insert_sandbox(kTeam, sandbox("sbx-a"), {}).has_value());
  sqlite3_commit_hook(native(), nullptr, nullptr);
  EXPECT_EQ(store().find_sandbox(kTeam, "sbx-a").error().code, ErrorCode::not_found);
  EXPECT_TRUE(store().insert_sandbox(kTeam, sandbox("sbx-a"), {}).has_value());
}

TEST_P(SqliteStoreTest, a_failure_at_any_step_of_an_insert_leaves_nothing) {
  Sandbox row = sandbox("sbx-a");
  row.labels = {{"a", "1"}};
  const Idempotency key{.key = "k", .request_digest = "body", .window_ms = 1000};
  int failures = 0;
  for (int budget = 0; budget < 10'000; ++budget) {
    base::Result<Inserted> inserted = [&] {
      const Fault fault(native(), budget);
      return store().insert_sandbox(kTeam, row, {{.type = "created"}, {.type = "starting"}}, key);
    }();
    if (inserted) {
      EXPECT_TRUE(inserted->fresh);
      EXPECT_EQ(store().list_events(kTeam, "sbx-a", 0, 10)->size(), 2U);
      EXPECT_GT(failures, 50);
      return;
    }
    ++failures;
    ASSERT_EQ(inserted.error().code, ErrorCode::unavailable) << inserted.error().message;
    ASSERT_EQ(sqlite3_get_autocommit(native()), 1) << budget;
    ASSERT_EQ(store().find_sandbox(kTeam, "sbx-a", true).error().code, ErrorCode::not_found);
  }
  FAIL() << "never succeeded";
}

TEST_P(SqliteStoreTest, a_failure_at_any_step_of_a_change_leaves_the_state_before_it) {
  insert(sandbox("sbx-a"));
  for (int budget = 0; budget < 10'000; ++budget) {
    const auto changed = [&] {
      const Fault fault(native(), budget);
      return store().set_state(kTeam, "sbx-a",
                               {.from = {SandboxState::starting},
                                .to = SandboxState::ready,
                                .events = {{.type = "ready"}}});
    }();
    const auto now = store().find_sandbox(kTeam, "sbx-a");
    const auto events = store().list_events(kTeam, "sbx-a", 0, 10);
    ASSERT_TRUE(now && events);
    if (changed) {
      EXPECT_EQ(now->state, SandboxState::ready);
      EXPECT_EQ(events->size(), 2U);
      return;
    }
    ASSERT_EQ(now->state, SandboxState::starting) << budget << changed.error().message;
    ASSERT_EQ(events->size(), 1U);
  }
  FAIL() << "never succeeded";
}

TEST_P(SqliteStoreTest, a_full_disk_is_told_and_passes) {
  ASSERT_TRUE(store().database().execute_script("PRAGMA max_page_count = 60"));
  Sandbox row = sandbox("sbx-0");
  row.environment_sealed.assign(20'000, 'x');
  base::Result<Inserted> last;
  int i = 0;
  for (; i < 100; ++i) {
    row.id = base::cat("sbx-", i);
    last = store().insert_sandbox(kTeam, row, {});
    if (!last) {
      break;
    }
  }
  ASSERT_FALSE(last.has_value());
  EXPECT_EQ(last.error().code, ErrorCode::disk_full);
  EXPECT_EQ(store().all_live_sandboxes()->size(), static_cast<size_t>(i));
  ASSERT_TRUE(store().database().execute_script("PRAGMA max_page_count = 100000"));
  EXPECT_TRUE(store().insert_sandbox(kTeam, row, {}).has_value());
}

}  // namespace
}  // namespace store
