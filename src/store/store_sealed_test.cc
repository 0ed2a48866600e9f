#include <gtest/gtest.h>

#include "store/store_testing.h"

namespace store {
namespace {

using model::SandboxState;

class StoreSealed : public StoreTest {
 protected:
  std::vector<std::string> keys(SealedKind kind, std::string_view start,
                                std::string_view after = "", int64_t limit = 100) {
    std::vector<std::string> out;
    const auto values = store().list_sealed(kind, start, after, limit);
    EXPECT_TRUE(values.has_value()) << values.error().message;
    for (const SealedValue& value : *values) {
      out.push_back(value.key);
    }
    return out;
  }
  using Keys = std::vector<std::string>;
};

INSTANTIATE_TEST_SUITE_P(Engines, StoreSealed,
                         testing::Values(StoreEngine::sqlite, StoreEngine::postgresql),
                         engine_name);

TEST_P(StoreSealed, a_sandbox_s_key_is_kept_until_it_is_gone) {
  Sandbox row = sandbox("sbx-1");
  row.public_key = "public";
  row.key_sealed = std::string("\0\xFF sealed key", 13);
  insert(row);
  EXPECT_EQ(store().find_sandbox(kTeam, "sbx-1")->key_sealed, row.key_sealed);
  EXPECT_EQ(store().find_sandbox(kTeam, "sbx-1")->public_key, "public");
  const auto gone = store().set_state(
      kTeam, "sbx-1", {.from = {SandboxState::starting}, .to = SandboxState::deleted});
  ASSERT_TRUE(gone.has_value() && gone->applied);
  EXPECT_EQ(gone->sandbox.key_sealed, "");
  EXPECT_EQ(gone->sandbox.public_key, "public");
  EXPECT_EQ(keys(SealedKind::sandbox_key, "abc"), Keys{});
}

TEST_P(StoreSealed, every_kind_is_found_by_what_it_does_not_begin_with) {
  Sandbox row = sandbox("sbx-1");
  row.environment_sealed = "newnewnew environment";
  row.key_sealed = "oldoldold key";
  insert(row);
  row.id = "sbx-2";
  row.environment_sealed = "oldoldold";
  row.key_sealed = "";
  insert(row);
  make_team("red");
  ASSERT_TRUE(
      store().put_registry("red", {.host = "b.example:5000", .secret_sealed = "oldoldold"}));
  ASSERT_TRUE(store().put_registry("red", {.host = "c.example", .secret_sealed = ""}));
  ASSERT_TRUE(store().add_identity_keys(
      {{.generation = 1, .id = "k1", .public_key = "p", .private_sealed = "oldoldold"}}, 0, 0, 0));
  ASSERT_TRUE(store().put_fact("ssh_host_key", base::base64("oldoldold")));
  ASSERT_TRUE(store().put_fact("another", base::base64("oldoldold")));
  EXPECT_EQ(keys(SealedKind::environment, "newnewnew"), Keys{"sbx-2"});
  EXPECT_EQ(keys(SealedKind::sandbox_key, "newnewnew"), Keys{"sbx-1"});
  EXPECT_EQ(keys(SealedKind::registry, "newnewnew"), Keys{"red b.example:5000"});
  EXPECT_EQ(keys(SealedKind::identity_key, "newnewnew"), Keys{"k1"});
  EXPECT_EQ(keys(SealedKind::ssh_host_key, "newnewnew"), Keys{"ssh_host_key"});
  EXPECT_EQ(keys(SealedKind::registry, "oldoldold"), Keys{});
  EXPECT_EQ(store().count_sealed(SealedKind::environment, ""), 2);
  EXPECT_EQ(store().count_sealed(SealedKind::environment, "newnewnew"), 1);
  EXPECT_EQ(store().count_sealed(SealedKind::ssh_host_key, "oldoldold"), 1);
}

TEST_P(StoreSealed, a_list_goes_on_behind_a_key) {
  for (const char* id : {"sbx-1", "sbx-2", "sbx-3"}) {
    insert(sandbox(id));
  }
  EXPECT_EQ(keys(SealedKind::environment, "new", "", 2), (Keys{"sbx-1", "sbx-2"}));
  EXPECT_EQ(keys(SealedKind::environment, "new", "sbx-2", 2), Keys{"sbx-3"});
}

TEST_P(StoreSealed, only_what_is_still_as_it_was_is_changed) {
  Sandbox row = sandbox("sbx-1");
  row.environment_sealed = "former";
  insert(row);
  row.id = "sbx-2";
  row.environment_sealed = "changed since";
  insert(row);
  const auto changed = store().reseal(
      SealedKind::environment, {{.before = {.key = "sbx-1", .sealed = "former"}, .sealed = "new"},
                                {.before = {.key = "sbx-2", .sealed = "former"}, .sealed = "new"},
                                {.before = {.key = "sbx-3", .sealed = "former"}, .sealed = "new"}});
  ASSERT_TRUE(changed.has_value()) << changed.error().message;
  EXPECT_EQ(*changed, 1);
  EXPECT_EQ(store().find_sandbox(kTeam, "sbx-1")->environment_sealed, "new");
  EXPECT_EQ(store().find_sandbox(kTeam, "sbx-2")->environment_sealed, "changed since");
  ASSERT_TRUE(store().put_registry(kTeam, {.host = "a.example", .secret_sealed = "former"}));
  EXPECT_EQ(store().reseal(
                SealedKind::registry,
                {{.before = {.key = "default a.example", .sealed = "former"}, .sealed = "new"}}),
            1);
  EXPECT_EQ(store().find_registry(kTeam, "a.example")->secret_sealed, "new");
  ASSERT_TRUE(store().put_fact("ssh_host_key", base::base64("former")));
  EXPECT_EQ(
      store().reseal(SealedKind::ssh_host_key,
                     {{.before = {.key = "ssh_host_key", .sealed = "former"}, .sealed = "new"}}),
      1);
  EXPECT_EQ(store().find_fact("ssh_host_key"), base::base64("new"));
}

TEST_P(StoreSealed, a_fact_is_changed_where_it_is_what_it_was) {
  EXPECT_EQ(store().change_fact("f", "a", "b"), false);
  ASSERT_TRUE(store().set_fact("f", "a"));
  EXPECT_EQ(store().change_fact("f", "a", "b"), true);
  EXPECT_EQ(store().change_fact("f", "a", "c"), false);
  EXPECT_EQ(store().find_fact("f"), "b");
  ASSERT_TRUE(store().set_fact("f", "d"));
  EXPECT_EQ(store().find_fact("f"), "d");
  // The row of the audit log goes with the change.
  EXPECT_EQ(store().change_fact("f", "d", "e", AuditRow{.event = "x"}), true);
  EXPECT_EQ(store().change_fact("f", "d", "e", AuditRow{.event = "x"}), false);
  EXPECT_EQ(store().audit_head()->id, 1);
}

}  // namespace
}  // namespace store
