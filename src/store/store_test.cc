#include "store/store.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "base/sys.h"
#include "store/migrations.h"

namespace store {
namespace {

using base::ErrorCode;
using model::SandboxState;

constexpr std::string_view kTeam = "default";

class StoreTest : public testing::Test {
 protected:
  StoreTest() {
    std::string pattern = testing::TempDir() + "store-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
    reopen();
  }
  ~StoreTest() override {
    store_.reset();
    std::filesystem::remove_all(folder_);
  }
  [[nodiscard]] std::string path() const { return folder_ + "/gateway.db"; }
  void reopen() {
    store_.reset();
    auto opened = Store::open(path());
    ASSERT_TRUE(opened.has_value()) << opened.error().message;
    store_ = std::move(*opened);
  }
  Store& store() { return *store_; }

  static Sandbox sandbox(const std::string& id, int64_t created_ms = 1000) {
    Sandbox out;
    out.id = id;
    out.owner = "somebody";
    out.state = SandboxState::starting;
    out.image = "docker.io/library/debian:latest";
    out.resources = {.millicpus = 1500, .memory_mb = 256, .storage_mb = 512, .pids = 99};
    out.environment_sealed = std::string("\0\xFF sealed", 9);
    out.created_ms = created_ms;
    return out;
  }
  Sandbox insert(const Sandbox& row) {
    auto inserted = store().insert_sandbox(kTeam, row, {{.at_ms = 1, .type = "created"}});
    EXPECT_TRUE(inserted.has_value()) << inserted.error().message;
    return inserted ? inserted->sandbox : Sandbox{};
  }
  std::vector<std::string> listed(const SandboxFilter& filter) {
    std::vector<std::string> out;
    auto page = store().list_sandboxes(kTeam, filter);
    EXPECT_TRUE(page.has_value()) << page.error().message;
    for (const Sandbox& row : page->items) {
      out.push_back(row.id);
    }
    return out;
  }
  void make_team(const std::string& name) {
    const auto made = store().database().execute(
        "INSERT INTO teams SELECT $1, image_prefixes, builds, max_millicpus, max_memory_mb, "
        "max_storage_mb, quota_millicpus, quota_memory_mb, quota_storage_mb, quota_sandboxes, "
        "default_storage_mb, lease_sec, max_lifetime_sec, queue_max_sec, start_max_sec, pids, "
        "isolation, network FROM teams WHERE name = 'default'",
        name);
    ASSERT_TRUE(made.has_value()) << made.error().message;
  }

  std::string folder_;
  std::unique_ptr<Store> store_;
};

TEST_F(StoreTest, default_team_has_the_documented_defaults) {
  const auto team = store().find_team("default");
  ASSERT_TRUE(team.has_value());
  EXPECT_EQ(team->lease_sec, 1800);
  EXPECT_EQ(team->max_lifetime_sec, 86400);
  EXPECT_EQ(team->queue_max_sec, 86400);
  EXPECT_EQ(team->start_max_sec, 1800);
  EXPECT_EQ(team->default_storage_mb, 1024);
  EXPECT_EQ(team->pids, 1024);
  EXPECT_EQ(team->isolation, std::vector<std::string>{"container"});
  EXPECT_EQ(team->network, "open");
  EXPECT_TRUE(team->image_prefixes.empty());
  EXPECT_EQ(store().find_team("other").error().code, ErrorCode::not_found);
}

TEST_F(StoreTest, a_sandbox_comes_back_field_by_field) {
  Sandbox row = sandbox("sbx-a");
  row.labels = {{"a", "1"}, {"b", "\"quoted\""}};
  row.user = "";
  row.network = model::NetworkMode::none;
  row.no_new_privileges = true;
  row.always_pull = true;
  row.lease_sec = 60;
  row.max_lifetime_ms = 4'000'000'000'000;
  insert(row);
  reopen();
  const auto found = store().find_sandbox(kTeam, "sbx-a");
  ASSERT_TRUE(found.has_value()) << found.error().message;
  EXPECT_EQ(found->team, kTeam);
  EXPECT_EQ(found->owner, row.owner);
  EXPECT_EQ(found->state, row.state);
  EXPECT_EQ(found->image, row.image);
  EXPECT_EQ(found->resources.millicpus, 1500);
  EXPECT_EQ(found->resources.memory_mb, 256);
  EXPECT_EQ(found->resources.storage_mb, 512);
  EXPECT_EQ(found->resources.pids, 99);
  EXPECT_EQ(found->labels, row.labels);
  EXPECT_EQ(found->environment_sealed, row.environment_sealed);
  EXPECT_EQ(found->user, std::optional<std::string>(""));
  EXPECT_EQ(found->workdir, std::nullopt);
  EXPECT_EQ(found->network, model::NetworkMode::none);
  EXPECT_TRUE(found->no_new_privileges);
  EXPECT_FALSE(found->run_entrypoint);
  EXPECT_TRUE(found->always_pull);
  EXPECT_EQ(found->lease_sec, 60);
  EXPECT_EQ(found->max_lifetime_ms, row.max_lifetime_ms);
}

TEST_F(StoreTest, another_team_sees_nothing_of_a_sandbox) {
  insert(sandbox("sbx-a"));
  make_team("other");
  EXPECT_EQ(store().find_sandbox("other", "sbx-a").error().code, ErrorCode::not_found);
  EXPECT_EQ(store().list_events("other", "sbx-a", 0, 10).error().code, ErrorCode::not_found);
  EXPECT_EQ(store().append_event("other", "sbx-a", {}).error().code, ErrorCode::not_found);
  EXPECT_EQ(store().patch_sandbox("other", "sbx-a", {}).error().code, ErrorCode::not_found);
  const StateChange change{.from = {SandboxState::starting}, .to = SandboxState::ready};
  EXPECT_EQ(store().set_state("other", "sbx-a", change).error().code, ErrorCode::not_found);
  EXPECT_TRUE(store().list_sandboxes("other", {})->items.empty());
  EXPECT_EQ(store().list_sandboxes_of_all_teams({})->items.size(), 1U);
}

TEST_F(StoreTest, a_repeated_key_gives_the_first_sandbox_even_when_it_is_deleted) {
  const Idempotency key{.key = "k", .request_digest = "body", .window_ms = 1000};
  ASSERT_TRUE(store().insert_sandbox(kTeam, sandbox("sbx-a"), {}, key)->fresh);
  const StateChange gone{.from = {SandboxState::starting}, .to = SandboxState::deleted};
  ASSERT_TRUE(store().set_state(kTeam, "sbx-a", gone)->applied);
  const auto again =
      store().insert_sandbox(kTeam, sandbox("sbx-b", 1500), {{.type = "created"}}, key);
  ASSERT_TRUE(again.has_value()) << again.error().message;
  EXPECT_FALSE(again->fresh);
  EXPECT_EQ(again->sandbox.id, "sbx-a");
  EXPECT_EQ(again->sandbox.state, SandboxState::deleted);
  EXPECT_EQ(store().find_sandbox(kTeam, "sbx-b", true).error().code, ErrorCode::not_found);
}

TEST_F(StoreTest, a_key_with_another_body_is_a_conflict) {
  ASSERT_TRUE(store().insert_sandbox(kTeam, sandbox("sbx-a"), {},
                                     Idempotency{.key = "k", .request_digest = "one"}));
  const auto other =
      store().insert_sandbox(kTeam, sandbox("sbx-b"), {},
                             Idempotency{.key = "k", .request_digest = "two", .window_ms = 1000});
  EXPECT_EQ(other.error().code, ErrorCode::idempotency_conflict);
}

TEST_F(StoreTest, a_key_is_of_one_team_and_of_one_day) {
  const Idempotency key{.key = "k", .request_digest = "body", .window_ms = 1000};
  ASSERT_TRUE(store().insert_sandbox(kTeam, sandbox("sbx-a", 1000), {}, key)->fresh);
  make_team("other");
  EXPECT_TRUE(store().insert_sandbox("other", sandbox("sbx-b", 1001), {}, key)->fresh);
  EXPECT_FALSE(store().insert_sandbox(kTeam, sandbox("sbx-c", 1999), {}, key)->fresh);
  EXPECT_TRUE(store().insert_sandbox(kTeam, sandbox("sbx-d", 2000), {}, key)->fresh);
}

TEST_F(StoreTest, an_id_is_taken_once) {
  insert(sandbox("sbx-a"));
  EXPECT_EQ(store().insert_sandbox(kTeam, sandbox("sbx-a"), {}).error().code, ErrorCode::conflict);
}

TEST_F(StoreTest, set_state_changes_only_from_the_states_named) {
  insert(sandbox("sbx-a"));
  const auto applied = store().set_state(kTeam, "sbx-a",
                                         {.from = {SandboxState::queued, SandboxState::starting},
                                          .to = SandboxState::ready,
                                          .image_digest = "sha256:1",
                                          .ready_ms = 5,
                                          .lease_expires_ms = 50,
                                          .events = {{.at_ms = 5, .type = "ready"}}});
  ASSERT_TRUE(applied.has_value()) << applied.error().message;
  EXPECT_TRUE(applied->applied);
  EXPECT_EQ(applied->sandbox.state, SandboxState::ready);
  EXPECT_EQ(applied->sandbox.image_digest, "sha256:1");
  EXPECT_EQ(applied->sandbox.created_ms, 1000);
  const auto late = store().set_state(kTeam, "sbx-a",
                                      {.from = {SandboxState::starting},
                                       .to = SandboxState::failed,
                                       .events = {{.type = "failed"}}});
  ASSERT_TRUE(late.has_value());
  EXPECT_FALSE(late->applied);
  EXPECT_EQ(late->sandbox.state, SandboxState::ready);
  const auto events = store().list_events(kTeam, "sbx-a", 0, 10);
  ASSERT_EQ(events->size(), 2U);
  EXPECT_EQ(events->at(0).id, 1);
  EXPECT_EQ(events->at(1).id, 2);
  EXPECT_EQ(events->at(1).type, "ready");
}

TEST_F(StoreTest, deletion_archives_the_row_and_drops_the_environment) {
  insert(sandbox("sbx-a", 1));
  const auto gone = store().set_state(kTeam, "sbx-a",
                                      {.from = {SandboxState::starting},
                                       .to = SandboxState::deleted,
                                       .reason = "deleted_by_user",
                                       .deleted_ms = 7});
  ASSERT_TRUE(gone.has_value());
  EXPECT_EQ(gone->sandbox.environment_sealed, "");
  EXPECT_EQ(store().find_sandbox(kTeam, "sbx-a").error().code, ErrorCode::not_found);
  EXPECT_EQ(store().find_sandbox(kTeam, "sbx-a", true)->reason, "deleted_by_user");
  EXPECT_EQ(store().list_events(kTeam, "sbx-a", 0, 10)->size(), 1U);
  EXPECT_TRUE(store().all_live_sandboxes()->empty());
  EXPECT_TRUE(listed({}).empty());
  EXPECT_EQ(listed({.archived = true}).size(), 1U);
  EXPECT_EQ(*store().forget_deleted_before(7), 0);
  EXPECT_EQ(*store().forget_deleted_before(8), 1);
  EXPECT_TRUE(listed({.archived = true}).empty());
}

TEST_F(StoreTest, events_are_numbered_per_sandbox_and_read_from_a_place) {
  insert(sandbox("sbx-a"));
  insert(sandbox("sbx-b"));
  EXPECT_EQ(store().append_event(kTeam, "sbx-a", {.type = "x", .container = "main"})->id, 2);
  EXPECT_EQ(store().append_event(kTeam, "sbx-b", {.type = "y"})->id, 2);
  EXPECT_EQ(store().append_event(kTeam, "sbx-a", {.type = "z"})->id, 3);
  const auto after = store().list_events(kTeam, "sbx-a", 1, 1);
  ASSERT_EQ(after->size(), 1U);
  EXPECT_EQ(after->at(0).id, 2);
  EXPECT_EQ(after->at(0).container, "main");
}

TEST_F(StoreTest, lists_page_newest_first_and_stay_stable_under_inserts) {
  for (int i = 0; i < 5; ++i) {
    insert(sandbox(base::cat("sbx-", i), 1000 + i / 2));  // two of the same millisecond
  }
  auto first = store().list_sandboxes(kTeam, {.limit = 2});
  ASSERT_EQ(first->items.size(), 2U);
  EXPECT_EQ(first->items[0].id, "sbx-4");
  EXPECT_EQ(first->items[1].id, "sbx-3");
  insert(sandbox("sbx-9", 2000));
  EXPECT_EQ(listed({.limit = 2, .cursor = first->next_cursor}),
            (std::vector<std::string>{"sbx-2", "sbx-1"}));
  auto last = store().list_sandboxes(kTeam, {.limit = 3, .cursor = first->next_cursor});
  EXPECT_EQ(last->items.size(), 3U);
  EXPECT_EQ(last->next_cursor, "");
}

TEST_F(StoreTest, a_foreign_cursor_is_refused) {
  const auto page = store().list_sandboxes(kTeam, {.cursor = "nonsense"});
  EXPECT_EQ(page.error().code, ErrorCode::invalid_field);
}

TEST_F(StoreTest, lists_filter_by_state_label_owner_image_and_text) {
  Sandbox a = sandbox("sbx-a", 1);
  a.labels = {{"task", "One_100%"}, {"kind", "test"}};
  Sandbox b = sandbox("sbx-b", 2);
  b.labels = {{"task", "two"}, {"kind", "test"}};
  b.owner = "other";
  b.image = "docker.io/library/alpine:3";
  b.state = SandboxState::queued;
  insert(a);
  insert(b);
  using Names = std::vector<std::string>;
  EXPECT_EQ(listed({.states = {SandboxState::queued, SandboxState::failed}}), Names{"sbx-b"});
  EXPECT_EQ(listed({.labels = {{"kind", "test"}, {"task", "One_100%"}}}), Names{"sbx-a"});
  EXPECT_EQ(listed({.labels = {{"kind", "test"}}}).size(), 2U);
  EXPECT_EQ(listed({.owner = "other"}), Names{"sbx-b"});
  EXPECT_EQ(listed({.image = "docker.io/library/alpine:3"}), Names{"sbx-b"});
  EXPECT_EQ(listed({.text = "ALPINE"}), Names{"sbx-b"});
  EXPECT_EQ(listed({.text = "one_100%"}), Names{"sbx-a"});
  EXPECT_EQ(listed({.text = "e%1"}), Names{});
  EXPECT_EQ(listed({.text = "sbx-"}).size(), 2U);
}

TEST_F(StoreTest, patch_replaces_labels_and_their_filter) {
  Sandbox a = sandbox("sbx-a");
  a.labels = {{"task", "one"}};
  insert(a);
  const auto patched = store().patch_sandbox(
      kTeam, "sbx-a", {.labels = Labels{{"task", "two"}}, .network = model::NetworkMode::none});
  ASSERT_TRUE(patched.has_value()) << patched.error().message;
  EXPECT_EQ(patched->labels, (Labels{{"task", "two"}}));
  EXPECT_EQ(patched->network, model::NetworkMode::none);
  EXPECT_TRUE(listed({.labels = {{"task", "one"}}}).empty());
  EXPECT_EQ(listed({.labels = {{"task", "two"}}}).size(), 1U);
  (void)store().set_state(kTeam, "sbx-a",
                          {.from = {SandboxState::starting}, .to = SandboxState::deleting});
  const auto late = store().patch_sandbox(kTeam, "sbx-a", {.lease_sec = 9});
  EXPECT_EQ(late.error().code, ErrorCode::not_ready);
}

TEST_F(StoreTest, leases_are_renewed_only_forwards_and_only_of_ready_sandboxes) {
  Sandbox ready = sandbox("sbx-a");
  ready.state = SandboxState::ready;
  ready.lease_expires_ms = 100;
  insert(ready);
  insert(sandbox("sbx-b"));
  const std::string team(kTeam);
  ASSERT_TRUE(store().renew_leases({{team, "sbx-a", 60, 200}, {team, "sbx-b", 60, 200}}));
  ASSERT_TRUE(store().renew_leases({{team, "sbx-a", 50, 150}, {team, "absent", 1, 1}}));
  EXPECT_EQ(store().find_sandbox(kTeam, "sbx-a")->lease_expires_ms, 200);
  EXPECT_EQ(store().find_sandbox(kTeam, "sbx-a")->last_activity_ms, 60);
  EXPECT_EQ(store().find_sandbox(kTeam, "sbx-b")->lease_expires_ms, 0);
}

TEST_F(StoreTest, due_are_those_whose_own_time_is_over) {
  const auto add = [&](const char* id, SandboxState state, auto set) {
    Sandbox row = sandbox(id);
    row.state = state;
    set(row);
    insert(row);
  };
  add("lease", SandboxState::ready, [](Sandbox& s) { s.lease_expires_ms = 10; });
  add("fresh", SandboxState::ready, [](Sandbox& s) { s.lease_expires_ms = 11; });
  add("life", SandboxState::ready, [](Sandbox& s) { s.max_lifetime_ms = 10; });
  add("queue", SandboxState::queued, [](Sandbox& s) { s.queue_deadline_ms = 9; });
  add("start", SandboxState::starting, [](Sandbox& s) { s.start_deadline_ms = 9; });
  add("started", SandboxState::ready, [](Sandbox& s) { s.start_deadline_ms = 9; });
  add("deleting", SandboxState::deleting, [](Sandbox& s) { s.max_lifetime_ms = 9; });
  add("timeless", SandboxState::starting, [](Sandbox&) {});
  std::vector<std::string> due;
  for (const Sandbox& row : *store().due_sandboxes(10)) {
    due.push_back(row.id);
  }
  EXPECT_EQ(due, (std::vector<std::string>{"lease", "life", "queue", "start"}));
}

TEST_F(StoreTest, tokens_are_found_by_hash_and_deleted_by_their_team) {
  const Token token{.id = "tok-1",
                    .name = "bootstrap",
                    .team = "default",
                    .subject = "admin",
                    .role = "admin",
                    .scopes = {"a", "b"},
                    .hash = "abc",
                    .created_ms = 1};
  ASSERT_TRUE(store().insert_token(token));
  EXPECT_EQ(store().insert_token(token).error().code, ErrorCode::conflict);
  ASSERT_TRUE(store().touch_token("tok-1", 9));
  const auto found = store().find_token_by_hash("abc");
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->id, "tok-1");
  EXPECT_EQ(found->scopes, token.scopes);
  EXPECT_EQ(found->last_used_ms, 9);
  EXPECT_EQ(store().find_token_by_hash("abd").error().code, ErrorCode::not_found);
  EXPECT_EQ(store().delete_token("other", "tok-1").error().code, ErrorCode::not_found);
  EXPECT_EQ(store().list_tokens("default")->size(), 1U);
  ASSERT_TRUE(store().delete_token("default", "tok-1"));
  EXPECT_EQ(store().find_token_by_hash("abc").error().code, ErrorCode::not_found);
}

TEST_F(StoreTest, registries_are_put_again_and_deleted) {
  Registry registry{.host = "localhost:5000",
                    .username = "u",
                    .secret_sealed = std::string("\0\x01", 2),
                    .plain_http = true};
  ASSERT_TRUE(store().put_registry(kTeam, registry));
  registry.username = "v";
  ASSERT_TRUE(store().put_registry(kTeam, registry));
  const auto found = store().find_registry(kTeam, "localhost:5000");
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->username, "v");
  EXPECT_EQ(found->secret_sealed, registry.secret_sealed);
  EXPECT_TRUE(found->plain_http);
  EXPECT_EQ(store().list_registries(kTeam)->size(), 1U);
  ASSERT_TRUE(store().delete_registry(kTeam, "localhost:5000"));
  EXPECT_EQ(store().delete_registry(kTeam, "localhost:5000").error().code, ErrorCode::not_found);
}

TEST_F(StoreTest, a_file_of_a_newer_program_is_refused) {
  ASSERT_TRUE(store().database().execute("INSERT INTO schema_version (version) VALUES (1000)"));
  store_.reset();
  const auto opened = Store::open(path());
  ASSERT_FALSE(opened.has_value());
  EXPECT_EQ(opened.error().code, ErrorCode::unavailable);
}

TEST_F(StoreTest, a_migration_that_fails_leaves_the_version_before_it) {
  const char* const broken[] = {
      migrations()[0],
      "CREATE TABLE fine (a BIGINT); CREATE TABLE broken (",
  };
  EXPECT_FALSE(migrate(store().database(), std::span(broken)).has_value());
  EXPECT_FALSE(store().database().execute("SELECT a FROM fine").has_value());
  EXPECT_TRUE(migrate(store().database(), migrations()).has_value());
}

TEST_F(StoreTest, what_was_answered_survives_kill_dash_nine) {
  store_.reset();
  auto pipe = *base::sys::make_pipe();
  const pid_t child = ::fork();
  if (child == 0) {
    auto opened = Store::open(path());
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
  explicit Fault(Store& store, int instructions)
      : native(store.database().native()), left(instructions) {
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

TEST_F(StoreTest, a_commit_that_fails_leaves_nothing) {
  sqlite3* const native = store().database().native();
  sqlite3_commit_hook(native, [](void*) { return 1; }, nullptr);
  EXPECT_FALSE(store().insert_sandbox(kTeam, sandbox("sbx-a"), {}).has_value());
  sqlite3_commit_hook(native, nullptr, nullptr);
  EXPECT_EQ(store().find_sandbox(kTeam, "sbx-a").error().code, ErrorCode::not_found);
  EXPECT_TRUE(store().insert_sandbox(kTeam, sandbox("sbx-a"), {}).has_value());
}

TEST_F(StoreTest, a_failure_at_any_step_of_an_insert_leaves_nothing) {
  Sandbox row = sandbox("sbx-a");
  row.labels = {{"a", "1"}};
  const Idempotency key{.key = "k", .request_digest = "body", .window_ms = 1000};
  int failures = 0;
  for (int budget = 0; budget < 10'000; ++budget) {
    base::Result<Inserted> inserted = [&] {
      const Fault fault(store(), budget);
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
    ASSERT_EQ(sqlite3_get_autocommit(store().database().native()), 1) << budget;
    ASSERT_EQ(store().find_sandbox(kTeam, "sbx-a", true).error().code, ErrorCode::not_found);
  }
  FAIL() << "never succeeded";
}

TEST_F(StoreTest, a_failure_at_any_step_of_a_change_leaves_the_state_before_it) {
  insert(sandbox("sbx-a"));
  for (int budget = 0; budget < 10'000; ++budget) {
    const auto changed = [&] {
      const Fault fault(store(), budget);
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

TEST_F(StoreTest, a_full_disk_is_told_and_passes) {
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

TEST_F(StoreTest, repeated_work_compiles_no_statement_twice) {
  const auto work = [&](int i) {
    insert(sandbox(base::cat("sbx-", i)));
    (void)store().set_state(kTeam, base::cat("sbx-", i),
                            {.from = {SandboxState::starting},
                             .to = SandboxState::ready,
                             .events = {{.type = "ready"}}});
    (void)listed({});
  };
  work(0);
  const int64_t before = store().database().prepared_count();
  for (int i = 1; i < 20; ++i) {
    work(i);
  }
  EXPECT_EQ(store().database().prepared_count(), before);
}

TEST_F(StoreTest, a_statement_in_use_is_not_handed_out_again) {
  const char* const sql = "SELECT name FROM teams";
  auto first = store().database().prepare(sql);
  ASSERT_TRUE(first && *first->step());
  EXPECT_EQ(store().database().prepare(sql).error().code, ErrorCode::internal);
}

TEST_F(StoreTest, parameters_out_of_order_are_refused) {
  EXPECT_FALSE(store().database().execute("SELECT $2, $1", 1, 2).has_value());
}

}  // namespace
}  // namespace store
