#include "store/store_testing.h"
#include "wire/audit_chain.h"

namespace store {
namespace {

using base::ErrorCode;

constexpr int64_t kMinute = 60'000;

class AuditStore : public StoreTest {
 protected:
  static AuditRow row(int64_t at_ms, const std::string& event = "command.run",
                      const std::string& caller = "ann") {
    return {.team = std::string(kTeam),
            .at_ms = at_ms,
            .event = event,
            .caller = caller,
            .token = "tok-1",
            .remote = "192.0.2.1",
            .status = 200,
            .duration_ms = 5,
            .details_json = R"({"argv":["True"]})"};
  }
  // `count` rows, a millisecond after each other.
  void add(int64_t count, int64_t first_ms = 1000) {
    std::vector<AuditRow> rows;
    rows.reserve(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) {
      rows.push_back(row(first_ms + i));
    }
    ASSERT_TRUE(store().append_audit(rows));
  }
  std::vector<int64_t> ids(AuditFilter filter) {
    std::vector<int64_t> out;
    do {
      auto page = store().page_audit(filter);
      EXPECT_TRUE(page.has_value()) << page.error().message;
      for (const AuditRow& each : page->items) {
        out.push_back(each.id);
      }
      filter.cursor = page->next_cursor;
    } while (!filter.cursor.empty());
    return out;
  }
  std::vector<std::string> lines(const AuditFilter& filter = {}) {
    const int64_t until = store().audit_head()->id;
    std::vector<std::string> out;
    for (int64_t after = 0; after < until;) {
      const auto piece = store().audit_lines(filter, after, until);
      EXPECT_TRUE(piece.has_value()) << piece.error().message;
      after = piece->through;
      for (const std::string_view line : base::split(piece->lines, '\n')) {
        if (!line.empty()) {
          out.emplace_back(line);
        }
      }
    }
    return out;
  }
  // "ok", or the row that is broken.
  std::string verified(std::optional<model::AuditHead> noted = std::nullopt) {
    wire::AuditVerifier verifier(std::move(noted));
    for (const std::string& line : lines()) {
      if (const auto added = verifier.add(line); !added) {
        return added.error().details.at(0).second;
      }
    }
    const auto report = verifier.finish();
    return report ? "ok" : "end " + report.error().details.at(0).second;
  }
  void execute(const std::string& sql) {
    ASSERT_TRUE(store().database().execute(sql).has_value()) << sql;
  }
};

INSTANTIATE_TEST_SUITE_P(Engines, AuditStore,
                         testing::Values(StoreEngine::sqlite, StoreEngine::postgresql),
                         engine_name);

TEST_P(AuditStore, what_is_appended_is_a_chain_over_all_batches) {
  EXPECT_EQ(store().audit_head()->id, 0);
  add(3);
  add(1200, 2000);  // more than one piece
  EXPECT_EQ(lines().size(), 1203U);
  EXPECT_EQ(verified(), "ok");
  const auto head = store().audit_head();
  EXPECT_EQ(head->id, 1203);
  EXPECT_EQ(verified(*head), "ok");
}

TEST_P(AuditStore, every_kind_of_change_in_the_table_is_found) {
  const std::vector<std::pair<std::string, std::string>> kChanges{
      {"UPDATE audit_logs SET details = '{}' WHERE id = 5", "5"},
      {"UPDATE audit_logs SET team = 'other' WHERE id = 5", "5"},
      {"UPDATE audit_logs SET at_ms = at_ms + 1 WHERE id = 5", "5"},
      {"UPDATE audit_logs SET event = 'x' WHERE id = 5", "5"},
      {"UPDATE audit_logs SET caller = 'eve' WHERE id = 5", "5"},
      {"UPDATE audit_logs SET token = '' WHERE id = 5", "5"},
      {"UPDATE audit_logs SET remote = '' WHERE id = 5", "5"},
      {"UPDATE audit_logs SET sandbox_id = 'sbx-x' WHERE id = 5", "5"},
      {"UPDATE audit_logs SET status = 403 WHERE id = 5", "5"},
      {"UPDATE audit_logs SET error = 'forbidden' WHERE id = 5", "5"},
      {"UPDATE audit_logs SET duration_ms = 6 WHERE id = 5", "5"},
      {"UPDATE audit_logs SET hash = '' WHERE id = 5", "5"},
      {"DELETE FROM audit_logs WHERE id = 5", "5"},
      {"DELETE FROM audit_logs WHERE id < 5", "5"},
      {"DELETE FROM audit_logs WHERE id > 5", "end 6"}};
  add(9);
  const model::AuditHead noted = *store().audit_head();
  for (const auto& [sql, broken] : kChanges) {
    // Taken back by an error in the end.
    const auto changed = store().database().transaction([&]() -> Result<void> {
      RETURN_IF_ERROR(store().database().execute(sql));
      EXPECT_EQ(verified(noted), broken) << sql;
      return base::fail(ErrorCode::conflict, "taken back");
    });
    EXPECT_EQ(changed.error().code, ErrorCode::conflict) << sql;
  }
  EXPECT_EQ(verified(noted), "ok");
}

TEST_P(AuditStore, a_cut_by_age_is_recorded_and_stays_verifiable) {
  add(10, 1000);
  add(5, 100'000);
  const model::AuditHead noted = *store().audit_head();
  EXPECT_EQ(*store().cut_audit(50'000, 200'000, 4), 4);
  EXPECT_EQ(*store().cut_audit(50'000, 200'000, 100), 6);
  EXPECT_EQ(*store().cut_audit(50'000, 200'000, 100), 0);
  EXPECT_EQ(verified(noted), "ok");
  EXPECT_EQ(ids({.event = "audit.cut"}).size(), 2U);
  EXPECT_EQ(ids({}).size(), 7U);
  // A cut that nobody recorded is found still.
  execute("DELETE FROM audit_logs WHERE id = 11");
  EXPECT_EQ(verified(), "12");
}

TEST_P(AuditStore, all_rows_may_be_cut_and_the_chain_goes_on) {
  add(3);
  EXPECT_EQ(*store().cut_audit(50'000, 60'000, 100), 3);
  add(2, 70'000);
  EXPECT_EQ(verified(), "ok");
  EXPECT_EQ(store().audit_head()->id, 6);
}

TEST_P(AuditStore, each_filter_gives_its_rows_and_no_others) {
  std::vector<AuditRow> rows{row(10), row(20, "file.read"), row(30, "file.read", "bob"),
                             row(40, "command.run", "bob")};
  rows[1].sandbox = "sbx-a";
  rows[2].error = "not_found";
  rows[3].error = "forbidden";
  rows[3].team = "other";
  rows[3].details_json = R"({"path":"/Needle_1"})";
  ASSERT_TRUE(store().append_audit(rows));
  using Ids = std::vector<int64_t>;
  const std::string team(kTeam);
  EXPECT_EQ(ids({}), (Ids{4, 3, 2, 1}));
  EXPECT_EQ(ids({.team = team}), (Ids{3, 2, 1}));
  EXPECT_EQ(ids({.team = "other"}), (Ids{4}));
  for (const auto& one : {std::optional<std::string>(), std::optional(team)}) {
    EXPECT_EQ(ids({.team = one, .event = "file.read"}), (Ids{3, 2}));
    EXPECT_EQ(ids({.team = one, .sandbox = "sbx-a"}), (Ids{2}));
    EXPECT_EQ(ids({.team = one, .result = "ok"}), (Ids{2, 1}));
    EXPECT_EQ(ids({.team = one, .result = "not_found"}), (Ids{3}));
    EXPECT_EQ(ids({.team = one, .event = "file.read", .caller = "bob"}), (Ids{3}));
    EXPECT_EQ(ids({.team = one, .event = "file.read", .result = "error"}), (Ids{3}));
    EXPECT_EQ(ids({.team = one, .text = "TRUE"}), (Ids{3, 2, 1}));
    EXPECT_EQ(ids({.team = one, .from_ms = 20, .until_ms = 30}), (Ids{2}));
  }
  EXPECT_EQ(ids({.caller = "bob"}), (Ids{4, 3}));
  EXPECT_EQ(ids({.result = "error"}), (Ids{4, 3}));
  EXPECT_EQ(ids({.team = team, .result = "error"}), (Ids{3}));
  EXPECT_EQ(ids({.text = "needle_"}), (Ids{4}));
  EXPECT_EQ(ids({.text = "needle%"}), (Ids{}));
  // The same filters of the lines.
  EXPECT_EQ(lines({.team = team}).size(), 3U);
  EXPECT_EQ(lines({.team = team, .text = "needle"}).size(), 0U);
  EXPECT_EQ(lines({.event = "file.read", .caller = "bob", .result = "error"}).size(), 1U);
}

TEST_P(AuditStore, pages_are_stable_while_rows_are_added) {
  add(25);
  AuditFilter filter{.limit = 10};
  std::vector<int64_t> seen;
  for (;;) {
    const auto page = store().page_audit(filter);
    for (const AuditRow& each : page->items) {
      seen.push_back(each.id);
    }
    add(7, 5000);
    filter.cursor = page->next_cursor;
    if (filter.cursor.empty()) {
      break;
    }
  }
  EXPECT_EQ(seen.size(), 25U);
  EXPECT_EQ(seen.front(), 25);
  EXPECT_EQ(seen.back(), 1);
  EXPECT_EQ(store().page_audit({.cursor = "x"}).error().code, ErrorCode::invalid_field);
  EXPECT_EQ(store().page_audit({.cursor = "1.x"}).error().code, ErrorCode::invalid_field);
}

TEST_P(AuditStore, a_text_far_back_is_found_over_several_pages_that_look_at_a_bounded_number) {
  AuditRow needle = row(1);
  needle.details_json = R"({"path":"needle"})";
  ASSERT_TRUE(store().append_audit({needle}));
  add(6000);
  const auto first = store().page_audit({.text = "needle"});
  EXPECT_TRUE(first->items.empty());
  EXPECT_FALSE(first->next_cursor.empty());
  EXPECT_EQ(ids({.text = "needle"}), (std::vector<int64_t>{1}));
}

TEST_P(AuditStore, each_list_walks_an_index_in_its_order) {
  if (GetParam() != StoreEngine::sqlite) {
    GTEST_SKIP() << "how SQLite plans; PostgreSQL goes by its statistics";
  }
  const auto plan = [this](const std::string& where) {
    auto statement = store().database().prepare(
        "EXPLAIN QUERY PLAN SELECT details FROM audit_logs "
        "WHERE " +
        where + " ORDER BY at_ms DESC, id DESC LIMIT 100");
    std::string out;
    while (*statement->step()) {
      out += std::string(statement->get_text(3)) + "\n";
    }
    return out;
  };
  for (const auto& [where, index] : std::vector<std::pair<std::string, std::string>>{
           {"TRUE", "by_time"},
           {"team = $1", "by_team"},
           {"team = $1 AND caller = $2", "by_caller"},
           {"team = $1 AND event = $2", "by_event"},
           {"team = $1 AND error <> ''", "failed"},
           {"team = $1 AND sandbox_id = $2", "by_sandbox"},
           {"team = $1 AND at_ms >= $2 AND (at_ms, id) < ($3, $4)", "by_team"}}) {
    const std::string found = plan(where);
    EXPECT_TRUE(found.contains("audit_logs_" + index)) << where << "\n" << found;
    EXPECT_FALSE(found.contains("TEMP B-TREE")) << where << "\n" << found;
  }
}

TEST_P(AuditStore, activity_counts_with_the_rows_and_sandboxes_by_their_time) {
  AuditRow upload = row(2 * kMinute, "file.write");
  upload.bytes_in = 1000;
  AuditRow failed = row(2 * kMinute + 1, "sandbox.create", "bob");
  failed.error = "invalid_field";
  ASSERT_TRUE(store().append_audit(
      {row(1), row(kMinute), upload, failed, row(2 * kMinute, "sandbox.create", "bob")}));
  Sandbox sandbox{.id = "sbx-a", .team = std::string(kTeam), .owner = "bob"};
  sandbox.created_ms = sandbox.admitted_ms = kMinute + kMinute / 2;
  sandbox.deleted_ms = 3 * kMinute;
  ASSERT_TRUE(store().insert_sandbox(kTeam, sandbox, {}).has_value());
  const auto points = store().list_activity(
      {.team = std::string(kTeam), .from_ms = 0, .until_ms = 10 * kMinute, .step_ms = 2 * kMinute},
      100);
  ASSERT_TRUE(points.has_value()) << points.error().message;
  ASSERT_EQ(points->size(), 4U);
  const ActivityPoint& first = points->at(0);
  EXPECT_EQ(first.subject, "ann");
  EXPECT_EQ(first.at_ms, 0);
  EXPECT_EQ(first.commands, 2);
  EXPECT_EQ(first.command_ms, 10);
  EXPECT_EQ(points->at(1).bytes_in, 1000);
  EXPECT_EQ(points->at(2).subject, "bob");
  EXPECT_EQ(points->at(2).sandbox_ms, kMinute / 2);
  EXPECT_EQ(points->at(3).creates, 1);
  EXPECT_EQ(points->at(3).failures, 1);
  EXPECT_EQ(points->at(3).sandbox_ms, kMinute);
  EXPECT_EQ(store()
                .list_activity({.team = "other", .until_ms = kMinute, .step_ms = kMinute}, 100)
                ->size(),
            0U);
}

TEST_P(AuditStore, limits_are_of_tokens_that_exist) {
  const Token token{.id = "tok-a",
                    .name = "a",
                    .team = std::string(kTeam),
                    .subject = "ann",
                    .role = model::Role::member,
                    .hash = "ab"};
  ASSERT_TRUE(store().insert_token(token).has_value());
  const TokenLimits limits{.requests_per_sec = 5, .body_mb = 0};
  EXPECT_EQ(store().put_token_limits("tok-none", limits).error().code, ErrorCode::not_found);
  EXPECT_EQ(*store().find_token_limits("tok-a"), TokenLimits{});
  ASSERT_TRUE(store().put_token_limits("tok-a", {.burst = 1}));
  ASSERT_TRUE(store().put_token_limits("tok-a", limits));
  EXPECT_EQ(*store().find_token_limits("tok-a"), limits);
  EXPECT_EQ(store().list_token_limits()->size(), 1U);
  ASSERT_TRUE(store().delete_token_limits("tok-a"));
  EXPECT_TRUE(store().list_token_limits()->empty());
}

TEST_P(AuditStore, rows_of_requests_are_found_behind_an_id) {
  AuditRow one = row(1);
  one.details_json = R"({"request_id":"req-a"})";
  ASSERT_TRUE(store().append_audit({one, row(2)}));
  EXPECT_EQ(store().requests_in_audit(0, {"req-a", "req-b"})->size(), 1U);
  EXPECT_EQ(store().requests_in_audit(1, {"req-a"})->size(), 0U);
}

}  // namespace
}  // namespace store
