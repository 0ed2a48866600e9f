#include "service/key_rotation.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>

#include <filesystem>
#include <fstream>

#include "base/sys.h"
#include "service/host_action.h"
#include "service/key_watch.h"
#include "service/sandbox_keys.h"
#include "service/sealing.h"
#include "service/ssh_host_key.h"
#include "store/store_testing.h"

namespace service {
namespace {

using base::ErrorCode;
using store::SealedKind;

// A store with a value of each kind and no gateway that runs; what a command says is looked at as a
// gateway would find it.
class KeyRotation : public store::StoreTest {
 protected:
  void SetUp() override {
    StoreTest::SetUp();
    if (IsSkipped()) {
      return;
    }
    sources_.file = folder() + "/secret.key";
    const SecretBox box = open();
    host_key_ = open_ssh_host_key(store(), box)->public_line;
    make_team("red");
    ASSERT_TRUE(store().put_registry(
        "red", {.host = "r.example", .secret_sealed = box.seal("pw", "registry r.example")}));
    ASSERT_TRUE(store().add_identity_keys({{.generation = 1,
                                            .id = "k",
                                            .public_key = "p",
                                            .private_sealed = box.seal("id", "identity-key.k")}},
                                          0, 0, 0));
    for (int i = 0; i < kSandboxes; ++i) {
      store::Sandbox row = sandbox("sbx-" + std::to_string(i));
      row.environment_sealed = box.seal("{}", row.id);
      give_key(box, row);
      insert(row);
    }
  }

  // More than one batch.
  static constexpr int kSandboxes = 130;
  static constexpr int kValues = 2 * kSandboxes + 3;

  SecretBox open() { return std::move(*open_secret_box(store(), sources_, random_)).box; }
  KeyWork work() {
    return {.store = store(),
            .sources = sources_,
            .data_folder = folder(),
            .shared = GetParam() == store::StoreEngine::postgresql,
            .random = random_,
            .clock = clock_,
            .patience = base::Milliseconds(300)};
  }
  std::string rotate() {
    auto one = work();
    auto told = rotate_keys(one);
    return told ? *told : base::cat("failed: ", told.error().message);
  }
  std::string retire() {
    auto one = work();
    auto told = retire_keys(one);
    return told ? *told : base::cat("failed: ", told.error().message);
  }
  std::string list() {
    auto one = work();
    return list_keys(one).value_or("failed");
  }
  // What the audit log has of keys, the oldest first: events, errors and details.
  std::vector<std::string> recorded() {
    std::vector<std::string> out;
    const auto page = store().page_audit({});
    for (const store::AuditRow& row : page->items) {
      EXPECT_TRUE(row.caller.starts_with(kHostSubject) && row.team.empty()) << row.caller;
      EXPECT_EQ(row.at_ms, base::to_ms(clock_.wall()));
      auto details = *wire::json::parse_object(row.details_json);
      EXPECT_NE(details.find("host"), nullptr);
      details.stable_erase(details.find("host"));
      out.insert(out.begin(),
                 base::cat(row.event, " ", row.error, " ", wire::json::serialize(details)));
    }
    return out;
  }
  void expect_all_opens(const SecretBox& box) {
    EXPECT_EQ(open_ssh_host_key(store(), box)->public_line, host_key_);
    EXPECT_EQ(
        box.unseal(store().find_registry("red", "r.example")->secret_sealed, "registry r.example")
            ->reveal(),
        "pw");
    EXPECT_EQ(box.unseal(store().list_identity_keys()->front().private_sealed, "identity-key.k")
                  ->reveal(),
              "id");
    for (int i = 0; i < kSandboxes; ++i) {
      const auto row = store().find_sandbox(store::kTeam, "sbx-" + std::to_string(i));
      ASSERT_TRUE(row.has_value());
      EXPECT_EQ(box.unseal(row->environment_sealed, row->id)->reveal(), "{}");
      EXPECT_TRUE(open_sandbox_key(box, *row));
    }
  }

  base::KernelRandom random_;
  base::FakeClock clock_;
  KeySources sources_;
  std::string host_key_;
};

INSTANTIATE_TEST_SUITE_P(Engines, KeyRotation,
                         testing::Values(store::StoreEngine::sqlite,
                                         store::StoreEngine::postgresql),
                         store::engine_name);

TEST_P(KeyRotation, seals_everything_anew_and_retires_what_was) {
  const std::string former = open().current().id;
  const std::string told = rotate();
  EXPECT_NE(told.find(base::cat(kValues, " values")), std::string::npos) << told;
  const SecretBox both = open();
  EXPECT_NE(both.current().id, former);
  EXPECT_EQ(both.keys().size(), 2U);
  expect_all_opens(both);
  retire();
  const SecretBox fresh = open();
  EXPECT_EQ(fresh.keys().size(), 1U);
  EXPECT_EQ(fresh.current().id, both.current().id);
  expect_all_opens(fresh);
  EXPECT_EQ(recorded(), (std::vector{base::cat("key.rotate  {\"key\":\"", fresh.current().id,
                                               "\",\"former\":\"", former, "\"}"),
                                     base::cat("key.retire  {\"key\":\"", fresh.current().id,
                                               "\",\"retired\":[\"", former, "\"]}")}));
  EXPECT_EQ(list(), base::cat(fresh.current().id, "  seals   file     ", kValues, " of ", kValues,
                              " values"));
}

TEST_P(KeyRotation, goes_on_wherever_it_was_ended) {
  const SecretBox before = open();
  // Ended with the new key staged.
  KeyRing keys = *read_key_file(sources_.file);
  keys.push_back(new_master_key(random_));
  ASSERT_TRUE(write_key_file(sources_.file, keys));
  expect_all_opens(open());
  EXPECT_EQ(open().current().id, before.current().id);
  // Ended when the store had taken the key, with some values sealed anew.
  ASSERT_TRUE(*store().change_fact(kKeyFact, keys.front().fingerprint, keys.back().fingerprint));
  const SecretBox between = open();
  EXPECT_EQ(between.current().id, keys.back().id);
  const auto some = store().list_sealed(SealedKind::sandbox_key, keys.back().raw_id, "", 7);
  for (const store::SealedValue& value : *some) {
    const std::string purpose = seal_purpose(SealedKind::sandbox_key, value.key);
    const auto plain = between.unseal(value.sealed, purpose);
    ASSERT_TRUE(
        store().reseal(SealedKind::sandbox_key,
                       {{.before = value, .sealed = between.seal(plain->reveal(), purpose)}}));
  }
  expect_all_opens(between);
  const std::string told = rotate();
  EXPECT_NE(told.find(base::cat(kValues - 7, " values")), std::string::npos) << told;
  EXPECT_EQ(read_key_file(sources_.file)->size(), 2U);  // and no third key
  EXPECT_EQ(recorded(), (std::vector{base::cat("key.rotate  {\"key\":\"", keys.back().id,
                                               "\",\"continued\":true}")}));
  retire();
  expect_all_opens(open());
  EXPECT_EQ(open().keys().size(), 1U);
}

TEST_P(KeyRotation, opens_and_seals_anew_what_is_from_before_keys_had_ids) {
  const SecretBox box = open();
  store::Sandbox row = sandbox("sbx-old");
  row.environment_sealed = box.seal("{}", row.id).substr(kKeyIdBytes);
  insert(row);
  row.id = "sbx-lost";
  row.environment_sealed = "sealed by a key that nobody has any more";
  insert(row);
  const std::string told = rotate();
  EXPECT_NE(told.find("1 that no key opens"), std::string::npos) << told;
  retire();
  EXPECT_TRUE(
      open().unseal(store().find_sandbox(store::kTeam, "sbx-old")->environment_sealed, "sbx-old"));
  // What nobody can open holds up no other rotation.
  const std::string current = open().current().id;
  rotate();
  EXPECT_NE(open().current().id, current);
}

TEST_P(KeyRotation, waits_for_gateways_and_names_who_has_not_the_key) {
  if (GetParam() != store::StoreEngine::postgresql) {
    GTEST_SKIP() << "a file has one gateway";
  }
  const std::string former = open().current().id;
  const int64_t now = store().server_time_ms()->value_or(0);
  ASSERT_TRUE(store().put_replica({.id = "rep-a", .heartbeat_ms = now + 60'000}));
  ASSERT_TRUE(store().put_replica({.id = "rep-dead", .heartbeat_ms = now - 60'000}));
  ASSERT_TRUE(store().set_fact(keys_told_fact("rep-a"), former));
  const std::string refused = rotate();
  EXPECT_NE(refused.find("rep-a"), std::string::npos) << refused;
  EXPECT_EQ(refused.find("rep-dead"), std::string::npos) << refused;
  EXPECT_EQ(open().current().id, former);
  const std::string next = read_key_file(sources_.file)->back().id;
  EXPECT_NE(list().find(base::cat(next, "  next    file     0 of")), std::string::npos) << list();
  // It has the key and does not seal by it yet.
  ASSERT_TRUE(store().set_fact(keys_told_fact("rep-a"), former + " " + next));
  EXPECT_NE(rotate().find("rep-a"), std::string::npos);
  EXPECT_EQ(open().current().id, next);
  // Refused, done, and not followed.
  const std::string lacking = R"("gateways":"rep-a","error":"not_ready"})";
  const std::string key = base::cat("{\"key\":\"", next, "\",");
  const std::string both = base::cat(key, "\"former\":\"", former, "\"");
  EXPECT_EQ(recorded(), (std::vector{base::cat("key.rotate not_ready ", key, lacking),
                                     base::cat("key.rotate  ", both, "}"),
                                     base::cat("key.rotate not_ready ", both, ",", lacking)}));
  EXPECT_NE(retire().find("rep-a"), std::string::npos);
  EXPECT_EQ(open().keys().size(), 2U);
  ASSERT_TRUE(store().set_fact(keys_told_fact("rep-a"), next + " " + former));
  EXPECT_NE(rotate().find(base::cat(kValues, " values")), std::string::npos);
  expect_all_opens(open());
}

TEST_P(KeyRotation, one_at_a_time_and_only_with_the_store_s_key) {
  {
    const auto folder_lock = base::sys::open(folder(), O_RDONLY | O_DIRECTORY);
    ASSERT_EQ(::flock(folder_lock->get(), LOCK_EX | LOCK_NB), 0);
    auto one = work();
    EXPECT_EQ(rotate_keys(one).error().code, ErrorCode::in_use);
    EXPECT_TRUE(recorded().empty());
  }
  ASSERT_TRUE(write_key_file(sources_.file, {new_master_key(random_)}));
  auto one = work();
  EXPECT_EQ(rotate_keys(one).error().code, ErrorCode::conflict);
  EXPECT_EQ(retire_keys(one).error().code, ErrorCode::conflict);
  EXPECT_EQ(recorded(), (std::vector<std::string>{R"(key.rotate conflict {"error":"conflict"})",
                                                  R"(key.retire conflict {"error":"conflict"})"}));
  ASSERT_TRUE(write_key_file(sources_.file, {}));
  EXPECT_EQ(rotate_keys(one).error().code, ErrorCode::conflict);
  EXPECT_FALSE(std::filesystem::exists(sources_.file));
}

TEST_P(KeyRotation, moves_from_the_file_to_a_command_and_on) {
  const std::string printed = folder() + "/printed";
  const MasterKey first = new_master_key(random_);
  const MasterKey second = new_master_key(random_);
  std::ofstream(printed) << base::hex(first.bytes.reveal()) << "\n";
  sources_.command = {"/bin/cat", printed};
  rotate();
  EXPECT_EQ(open().current().id, first.id);
  retire();
  EXPECT_FALSE(std::filesystem::exists(sources_.file));
  expect_all_opens(open());
  EXPECT_NE(rotate().find("master-key-command prints no key that is newer"), std::string::npos);
  std::ofstream(printed, std::ios::app) << base::base64(second.bytes.reveal()) << "\n";
  EXPECT_EQ(open().current().id, first.id);
  rotate();
  std::ofstream(printed) << base::base64(second.bytes.reveal()) << "\n";
  EXPECT_EQ(open().current().id, second.id);
  expect_all_opens(open());
}

}  // namespace
}  // namespace service
