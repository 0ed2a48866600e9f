#include "store/store.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "base/sys.h"
#include "store/migrations.h"
#include "store/store_testing.h"

namespace store {
namespace {

using base::ErrorCode;
using model::SandboxState;

INSTANTIATE_TEST_SUITE_P(Engines, StoreTest,
                         testing::Values(StoreEngine::sqlite, StoreEngine::postgresql),
                         engine_name);
INSTANTIATE_TEST_SUITE_P(Engines, SqliteStoreTest, testing::Values(StoreEngine::sqlite),
                         engine_name);

TEST_P(StoreTest, default_team_has_the_documented_defaults) {
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

TEST_P(StoreTest, a_sandbox_comes_back_field_by_field) {
  Sandbox row = sandbox("sbx-a");
  row.labels = {{"a", "1"}, {"b", "\"quoted\""}};
  row.user = "";
  row.network = {.mode = model::NetworkMode::allow, .allow = {"a.b", "10.0.0.0/8"}};
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
  EXPECT_EQ(found->network, row.network);
  EXPECT_TRUE(found->no_new_privileges);
  EXPECT_FALSE(found->run_entrypoint);
  EXPECT_TRUE(found->always_pull);
  EXPECT_EQ(found->lease_sec, 60);
  EXPECT_EQ(found->max_lifetime_ms, row.max_lifetime_ms);
}

TEST_P(StoreTest, another_team_sees_nothing_of_a_sandbox) {
  insert(sandbox("sbx-a"));
  make_team("other");
  EXPECT_EQ(store().find_sandbox("other", "sbx-a").error().code, ErrorCode::not_found);
  EXPECT_EQ(store().list_events("other", "sbx-a", 0, 10).error().code, ErrorCode::not_found);
  EXPECT_EQ(store().append_event("other", "sbx-a", {}).error().code, ErrorCode::not_found);
  EXPECT_EQ(store().patch_sandbox("other", "sbx-a", {}).error().code, ErrorCode::not_found);
  const StateChange change{.from = {SandboxState::starting}, .to = SandboxState::ready};
  EXPECT_EQ(store().set_state("other", "sbx-a", change).error().code, ErrorCode::not_found);
  EXPECT_TRUE(store().list_sandboxes({"other"}, {})->items.empty());
  EXPECT_EQ(store().list_sandboxes_of_all_teams({})->items.size(), 1U);
}

TEST_P(StoreTest, a_repeated_key_gives_the_first_sandbox_even_when_it_is_deleted) {
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

TEST_P(StoreTest, a_key_with_another_body_is_a_conflict) {
  ASSERT_TRUE(store().insert_sandbox(kTeam, sandbox("sbx-a"), {},
                                     Idempotency{.key = "k", .request_digest = "one"}));
  const auto other =
      store().insert_sandbox(kTeam, sandbox("sbx-b"), {},
                             Idempotency{.key = "k", .request_digest = "two", .window_ms = 1000});
  EXPECT_EQ(other.error().code, ErrorCode::idempotency_conflict);
}

TEST_P(StoreTest, a_key_is_of_one_team_and_of_one_day) {
  const Idempotency key{.key = "k", .request_digest = "body", .window_ms = 1000};
  ASSERT_TRUE(store().insert_sandbox(kTeam, sandbox("sbx-a", 1000), {}, key)->fresh);
  make_team("other");
  EXPECT_TRUE(store().insert_sandbox("other", sandbox("sbx-b", 1001), {}, key)->fresh);
  EXPECT_FALSE(store().insert_sandbox(kTeam, sandbox("sbx-c", 1999), {}, key)->fresh);
  EXPECT_TRUE(store().insert_sandbox(kTeam, sandbox("sbx-d", 2000), {}, key)->fresh);
}

TEST_P(StoreTest, an_id_is_taken_once) {
  insert(sandbox("sbx-a"));
  EXPECT_EQ(store().insert_sandbox(kTeam, sandbox("sbx-a"), {}).error().code, ErrorCode::conflict);
}

TEST_P(StoreTest, set_state_changes_only_from_the_states_named) {
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

TEST_P(StoreTest, deletion_archives_the_row_and_drops_the_environment) {
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
  EXPECT_EQ(*store().forget_deleted_before(7, 10), 0);
  EXPECT_EQ(*store().forget_deleted_before(8, 0), 0);
  EXPECT_EQ(*store().forget_deleted_before(8, 10), 1);
  EXPECT_TRUE(listed({.archived = true}).empty());
}

TEST_P(StoreTest, events_are_numbered_per_sandbox_and_read_from_a_place) {
  insert(sandbox("sbx-a"));
  insert(sandbox("sbx-b"));
  EXPECT_EQ(store().append_event(kTeam, "sbx-a", {.type = "x", .container = "main"})->id, 2);
  EXPECT_EQ(store().append_event(kTeam, "sbx-b", {.type = "y"})->id, 2);
  EXPECT_EQ(store().append_event(kTeam, "sbx-a", {.type = "z"})->id, 3);
  // A repeat, as after a lost answer, is no second event; the same at another time is one.
  EXPECT_EQ(store().append_event(kTeam, "sbx-a", {.type = "z"})->id, 3);
  EXPECT_EQ(store().append_event(kTeam, "sbx-a", {.at_ms = 7, .type = "z"})->id, 4);
  const auto after = store().list_events(kTeam, "sbx-a", 1, 1);
  ASSERT_EQ(after->size(), 1U);
  EXPECT_EQ(after->at(0).id, 2);
  EXPECT_EQ(after->at(0).container, "main");
}

TEST_P(StoreTest, lists_page_newest_first_and_stay_stable_under_inserts) {
  for (int i = 0; i < 5; ++i) {
    insert(sandbox(base::cat("sbx-", i), 1000 + i / 2));  // two of the same millisecond
  }
  auto first = store().list_sandboxes({std::string(kTeam)}, {.limit = 2});
  ASSERT_EQ(first->items.size(), 2U);
  EXPECT_EQ(first->items[0].id, "sbx-4");
  EXPECT_EQ(first->items[1].id, "sbx-3");
  insert(sandbox("sbx-9", 2000));
  EXPECT_EQ(listed({.limit = 2, .cursor = first->next_cursor}),
            (std::vector<std::string>{"sbx-2", "sbx-1"}));
  auto last =
      store().list_sandboxes({std::string(kTeam)}, {.limit = 3, .cursor = first->next_cursor});
  EXPECT_EQ(last->items.size(), 3U);
  EXPECT_EQ(last->next_cursor, "");
}

TEST_P(StoreTest, a_foreign_cursor_is_refused) {
  const auto page = store().list_sandboxes({std::string(kTeam)}, {.cursor = "nonsense"});
  EXPECT_EQ(page.error().code, ErrorCode::invalid_field);
}

TEST_P(StoreTest, lists_filter_by_state_label_owner_image_and_text) {
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
  EXPECT_EQ(listed({.text = "task"}), Names{});  // a label's name is not looked at
  EXPECT_EQ(listed({.text = "sbx-"}).size(), 2U);
}

TEST_P(StoreTest, a_text_is_found_in_labels_however_they_are_written) {
  Sandbox row = sandbox("sbx-a");
  row.labels = {{"a", "Say \"Hi\" \\ \n to \xC3\x84\x01"}};
  insert(row);
  for (const char* text : {"\"hi\"", "\" \\", "\\ \n", "\n", "to \xC3\x84", "\x01"}) {
    EXPECT_EQ(listed({.text = text}).size(), 1U) << text;
  }
  for (const char* text : {"\\\"", "\\n", "u0001", "\",\""}) {
    EXPECT_TRUE(listed({.text = text}).empty()) << text;
  }
}

TEST_P(StoreTest, patch_replaces_labels_and_their_filter) {
  Sandbox a = sandbox("sbx-a");
  a.labels = {{"task", "one"}};
  insert(a);
  const auto patched =
      store().patch_sandbox(kTeam, "sbx-a",
                            {.labels = Labels{{"task", "two"}},
                             .network = model::NetworkPolicy{.mode = model::NetworkMode::none}});
  ASSERT_TRUE(patched.has_value()) << patched.error().message;
  EXPECT_EQ(patched->labels, (Labels{{"task", "two"}}));
  EXPECT_EQ(patched->network.mode, model::NetworkMode::none);
  EXPECT_TRUE(listed({.labels = {{"task", "one"}}}).empty());
  EXPECT_EQ(listed({.labels = {{"task", "two"}}}).size(), 1U);
  ASSERT_TRUE(store()
                  .set_state(kTeam, "sbx-a",
                             {.from = {SandboxState::starting}, .to = SandboxState::deleting})
                  ->applied);
  const auto late = store().patch_sandbox(kTeam, "sbx-a", {.lease_sec = 9});
  EXPECT_EQ(late.error().code, ErrorCode::not_ready);
}

TEST_P(StoreTest, leases_are_renewed_only_forwards_and_only_of_ready_sandboxes) {
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

TEST_P(StoreTest, due_are_those_whose_own_time_is_over) {
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

TEST_P(StoreTest, a_new_team_has_what_the_default_team_has) {
  make_team("red");
  Team expected = *store().find_team("default");
  expected.name = "red";
  EXPECT_EQ(*store().find_team("red"), expected);
}

TEST_P(StoreTest, a_team_is_put_again_with_all_it_has) {
  const Team first{.name = "red", .created_ms = 5, .members = {{.subject = "bob"}}};
  ASSERT_TRUE(store().put_team(first));
  EXPECT_EQ(*store().find_team("red"), first);
  const Team second{.name = "red",
                    .image_prefixes = {"ghcr.io/red/"},
                    .builds = false,
                    .max_millicpus = 1,
                    .max_memory_mb = 2,
                    .max_storage_mb = 3,
                    .quota_millicpus = 4,
                    .quota_memory_mb = 5,
                    .quota_storage_mb = 6,
                    .quota_sandboxes = 7,
                    .default_storage_mb = 8,
                    .lease_sec = 9,
                    .max_lifetime_sec = 10,
                    .queue_max_sec = 11,
                    .start_max_sec = 12,
                    .pids = 13,
                    .isolation = {"vm", "container"},
                    .network = "none",
                    .borrow_millicpus = 0,
                    .borrow_memory_mb = 14,
                    .borrow_storage_mb = 15,
                    .borrow_sandboxes = 16,
                    .lend_millicpus = 17,
                    .lend_memory_mb = 18,
                    .lend_storage_mb = 0,
                    .lend_sandboxes = 19,
                    .reclaim = true,
                    .created_ms = 5,
                    .members = {{.subject = "amy", .role = model::Role::admin},
                                {.subject = "bob", .role = model::Role::member}}};
  Team later = second;
  later.created_ms = 6;  // not taken: it was made before
  ASSERT_TRUE(store().put_team(later));
  EXPECT_EQ(*store().find_team("red"), second);
  EXPECT_EQ(*store().find_team("default"), Team{.name = "default"});
}

TEST_P(StoreTest, tokens_are_kept_whole_and_deleted_by_their_team) {
  Token token{.id = "tok-1",
              .name = "bootstrap",
              .team = "default",
              .subject = "admin",
              .role = model::Role::admin,
              .scopes = {"a", "b"},
              .hash = "abc",
              .created_ms = 1,
              .expires_ms = 2,
              .of_member = true,
              .every_team = true};
  ASSERT_TRUE(store().insert_token(token));
  EXPECT_EQ(store().insert_token(token).error().code, ErrorCode::conflict);
  ASSERT_TRUE(store().touch_token("tok-1", 9));
  ASSERT_TRUE(store().touch_token("tok-1", 8));
  token.last_used_ms = 9;
  EXPECT_EQ(*store().list_tokens(), std::vector<Token>{token});
  EXPECT_EQ(store().delete_token("other", "tok-1").error().code, ErrorCode::not_found);
  ASSERT_TRUE(store().delete_token("default", "tok-1"));
  EXPECT_TRUE(store().list_tokens()->empty());
}

TEST_P(StoreTest, who_leaves_a_team_leaves_no_token_there) {
  const std::vector<Member> both{{.subject = "amy"}, {.subject = "bob"}};
  ASSERT_TRUE(store().change_teams({.puts = {{.name = "red", .members = both},  //
                                             {.name = "blue", .members = both}},
                                    .removals = {}}));
  const auto token = [&](const std::string& id, const std::string& team, const std::string& subject,
                         bool of_member) {
    ASSERT_TRUE(store().insert_token({.id = id,
                                      .team = team,
                                      .subject = subject,
                                      .scopes = {"member"},
                                      .hash = id,
                                      .of_member = of_member}));
  };
  token("tok-red-amy", "red", "amy", true);
  token("tok-red-bob", "red", "bob", true);
  token("tok-red-program", "red", "amy", false);
  token("tok-blue-amy", "blue", "amy", true);
  const auto gone = store().change_teams(
      {.puts = {{.name = "red", .members = {{.subject = "bob"}}}}, .removals = {}});
  EXPECT_EQ(*gone, std::vector<std::string>{"tok-red-amy"});
  EXPECT_EQ(store().list_tokens()->size(), 3U);
}

TEST_P(StoreTest, a_team_with_sandboxes_or_tokens_stays_and_nothing_else_changes) {
  make_team("red");
  ASSERT_TRUE(store().insert_sandbox("red", sandbox("sbx-a"), {}));
  const auto refused = store().change_teams({.puts = {{.name = "blue"}}, .removals = {"red"}});
  EXPECT_EQ(refused.error().code, ErrorCode::in_use);
  EXPECT_EQ(store().list_teams()->size(), 2U);  // no blue
  EXPECT_EQ(store().change_teams({.puts = {}, .removals = {"white"}}).error().code,
            ErrorCode::not_found);
  ASSERT_TRUE(store()
                  .set_state("red", "sbx-a",
                             {.from = {SandboxState::starting, SandboxState::queued},
                              .to = SandboxState::deleted})
                  ->applied);
  ASSERT_TRUE(store().insert_token({.id = "tok-1", .team = "red", .hash = "h"}));
  EXPECT_EQ(store().change_teams({.puts = {}, .removals = {"red"}}).error().code,
            ErrorCode::in_use);
  ASSERT_TRUE(store().delete_token("red", "tok-1"));
  ASSERT_TRUE(store().put_registry("red", {.host = "a.example"}));
  ASSERT_TRUE(store().change_teams({.puts = {}, .removals = {"red"}}));
  EXPECT_EQ(store().team_of_sandbox("sbx-a").error().code, ErrorCode::not_found);
  EXPECT_EQ(store().list_teams()->size(), 1U);
}

TEST_P(StoreTest, labels_of_other_teams_are_no_way_to_find_their_sandboxes) {
  for (const std::string team : {"red", "blue"}) {
    make_team(team);
    Sandbox row = sandbox("sbx-" + team);
    row.labels = {{"task", "secret"}};
    ASSERT_TRUE(store().insert_sandbox(team, row, {}));
  }
  const std::vector<std::string> own{"red"};
  const auto found = [&](SandboxFilter filter) {
    filter.labels_of = own;
    std::string out;
    for (const Sandbox& row : store().list_sandboxes_of_all_teams(filter)->items) {
      out += row.id + " ";
    }
    return out;
  };
  EXPECT_EQ(found({.labels = {{"task", "secret"}}}), "sbx-red ");
  EXPECT_EQ(found({.text = "secret"}), "sbx-red ");
  EXPECT_EQ(found({.text = "sbx-"}), "sbx-red sbx-blue ");
  EXPECT_EQ(store().list_sandboxes(own, {})->items.size(), 1U);
  EXPECT_TRUE(store().list_sandboxes({}, {})->items.empty());
  EXPECT_EQ(*store().team_of_sandbox("sbx-blue"), "blue");
}

TEST_P(StoreTest, registries_are_put_again_and_deleted) {
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

AuditRow audit_row(const std::string& sandbox, int64_t at_ms, const std::string& event) {
  return {.team = std::string(kTeam),
          .sandbox = sandbox,
          .at_ms = at_ms,
          .event = event,
          .caller = "somebody",
          .remote = "192.0.2.1",
          .details_json = R"({"a":1})"};
}

TEST_P(StoreTest, audit_rows_come_back_newest_first_and_filtered) {
  insert(sandbox("sbx-a"));
  insert(sandbox("sbx-b"));
  ASSERT_TRUE(store().append_audit({audit_row("sbx-a", 10, "one"), audit_row("sbx-b", 11, "one"),
                                    audit_row("sbx-a", 20, "two"), audit_row("sbx-a", 30, "one")}));
  reopen();
  const auto ids = [this](const AuditFilter& filter) {
    std::vector<int64_t> out;
    for (const AuditRow& row : *store().list_audit(kTeam, "sbx-a", filter)) {
      out.push_back(row.id);
    }
    return out;
  };
  EXPECT_EQ(ids({}), (std::vector<int64_t>{4, 3, 1}));
  EXPECT_EQ(ids({.event = "one"}), (std::vector<int64_t>{4, 1}));
  EXPECT_EQ(ids({.from_ms = 20}), (std::vector<int64_t>{4, 3}));
  EXPECT_EQ(ids({.until_ms = 20}), (std::vector<int64_t>{1}));
  EXPECT_EQ(ids({.limit = 1, .skip = 1}), (std::vector<int64_t>{3}));
  EXPECT_EQ(*store().count_audit(kTeam, "sbx-a", {.event = "one", .limit = 1}), 2);
  const auto row = store().find_audit(kTeam, "sbx-a", 3);
  ASSERT_TRUE(row.has_value());
  EXPECT_EQ(row->event, "two");
  EXPECT_EQ(row->at_ms, 20);
  EXPECT_EQ(row->caller, "somebody");
  EXPECT_EQ(row->remote, "192.0.2.1");
  EXPECT_EQ(row->details_json, R"({"a":1})");
}

TEST_P(StoreTest, audit_rows_are_of_their_team_and_sandbox_only) {
  make_team("other");
  insert(sandbox("sbx-a"));
  insert(sandbox("sbx-b"));
  ASSERT_TRUE(store().append_audit({audit_row("sbx-a", 10, "one")}));
  EXPECT_EQ(store().list_audit("other", "sbx-a", {}).error().code, ErrorCode::not_found);
  EXPECT_EQ(store().count_audit("other", "sbx-a", {}).error().code, ErrorCode::not_found);
  EXPECT_EQ(store().find_audit("other", "sbx-a", 1).error().code, ErrorCode::not_found);
  EXPECT_EQ(store().find_audit(kTeam, "sbx-b", 1).error().code, ErrorCode::not_found);
  EXPECT_EQ(store().find_audit(kTeam, "sbx-a", 2).error().code, ErrorCode::not_found);
  EXPECT_EQ(store().list_audit(kTeam, "sbx-none", {}).error().code, ErrorCode::not_found);
  // Another team's row about this sandbox (a refused call) is not shown to its owner.
  AuditRow foreign = audit_row("sbx-a", 20, "two");
  foreign.team = "other";
  ASSERT_TRUE(store().append_audit({foreign}));
  EXPECT_EQ(store().list_audit(kTeam, "sbx-a", {})->size(), 1U);
}

TEST_P(StoreTest, an_insert_and_its_audit_row_are_one) {
  const Idempotency key{.key = "k", .request_digest = "d", .window_ms = 1000};
  ASSERT_TRUE(store().insert_sandbox(kTeam, sandbox("sbx-a"), {}, key,
                                     audit_row("sbx-a", 1, "sandbox.create")));
  // Neither a repeated insert nor a failed one leaves a row.
  ASSERT_TRUE(store().insert_sandbox(kTeam, sandbox("sbx-b"), {}, key,
                                     audit_row("sbx-a", 2, "sandbox.create")));
  ASSERT_FALSE(store().insert_sandbox(kTeam, sandbox("sbx-a"), {}, std::nullopt,
                                      audit_row("sbx-a", 3, "sandbox.create")));
  EXPECT_EQ(store().list_audit(kTeam, "sbx-a", {})->size(), 1U);
}

TEST_P(StoreTest, repeated_work_compiles_no_statement_twice) {
  const auto work = [&](int i) {
    insert(sandbox(base::cat("sbx-", i)));
    ASSERT_TRUE(store()
                    .set_state(kTeam, base::cat("sbx-", i),
                               {.from = {SandboxState::starting},
                                .to = SandboxState::ready,
                                .events = {{.type = "ready"}}})
                    ->applied);
    (void)listed({});
  };
  work(0);
  const int64_t before = store().database().prepared_count();
  for (int i = 1; i < 20; ++i) {
    work(i);
  }
  EXPECT_EQ(store().database().prepared_count(), before);
}

TEST_P(StoreTest, a_statement_in_use_is_not_handed_out_again) {
  const char* const sql = "SELECT name FROM teams";
  auto first = store().database().prepare(sql);
  ASSERT_TRUE(first && *first->step());
  EXPECT_EQ(store().database().prepare(sql).error().code, ErrorCode::internal);
}

TEST_P(SqliteStoreTest, parameters_out_of_order_are_refused) {
  EXPECT_FALSE(store().database().execute("SELECT $2, $1", 1, 2).has_value());
}

}  // namespace
}  // namespace store
