#include "wire/audit_chain.h"

#include <gtest/gtest.h>

#include "base/text.h"

namespace wire {
namespace {

using base::ErrorCode;

std::vector<std::string> chain(int64_t first, int64_t count, std::string prev,
                               const std::string& cut_details = "") {
  std::vector<std::string> lines;
  for (int64_t id = first; id < first + count; ++id) {
    const bool is_cut = !cut_details.empty() && id == first + count - 1;
    model::AuditRow row{.id = id,
                        .team = "default",
                        .at_ms = 1'000 + id,
                        .event = is_cut ? std::string(kAuditCutEvent) : "command.run",
                        .caller = "a \"quoted\"\n name",
                        .status = 200,
                        .duration_ms = 3,
                        .details_json = is_cut ? cut_details : R"({"argv":["x\",\"hash\":\""]})"};
    row.hash = audit_hash(row, prev);
    lines.push_back(audit_line(row, prev));
    prev = row.hash;
  }
  return lines;
}

std::string hash_in(const std::string& line) { return line.substr(line.size() - 66, 64); }

// The details.row of the first failure, "ok", or "end: " and what finish() says.
std::string verified(const std::vector<std::string>& lines,
                     std::optional<model::AuditHead> noted = std::nullopt) {
  AuditVerifier verifier(std::move(noted));
  for (const std::string& line : lines) {
    if (const auto added = verifier.add(line); !added) {
      return added.error().details.empty() ? "malformed" : added.error().details[0].second;
    }
  }
  const auto report = verifier.finish();
  return report ? "ok" : "end " + report.error().details.at(0).second;
}

TEST(AuditChain, a_whole_log_is_whole) {
  EXPECT_EQ(verified(chain(1, 5, std::string(kAuditGenesis))), "ok");
  EXPECT_EQ(verified({}), "ok");
}

TEST(AuditChain, the_hash_is_over_the_bytes_before_its_member) {
  const auto lines = chain(1, 1, std::string(kAuditGenesis));
  EXPECT_TRUE(lines[0].starts_with(R"({"id":1,"at":"1970-01-01T00:00:01.001Z","team":"default",)"));
  EXPECT_TRUE(lines[0].contains(base::cat(R"(,"prev":")", kAuditGenesis, R"(","hash":")")));
  EXPECT_EQ(hash_in(lines[0]).size(), 64U);
}

TEST(AuditChain, a_change_of_any_byte_is_found_in_its_row) {
  const auto lines = chain(1, 3, std::string(kAuditGenesis));
  for (size_t at = 0; at < lines[1].size(); ++at) {
    auto changed = lines;
    changed[1][at] = changed[1][at] == '1' ? '2' : '1';
    EXPECT_NE(verified(changed), "ok") << at;
  }
}

TEST(AuditChain, a_row_whose_hash_was_made_anew_breaks_the_one_behind_it) {
  auto lines = chain(1, 3, std::string(kAuditGenesis));
  lines[1] = chain(2, 1, hash_in(lines[0]), "{}")[0];
  EXPECT_EQ(verified(lines), "3");
}

TEST(AuditChain, a_missing_a_doubled_and_a_swapped_row_are_found) {
  const auto lines = chain(1, 5, std::string(kAuditGenesis));
  EXPECT_EQ(verified({lines[0], lines[1], lines[3], lines[4]}), "3");
  EXPECT_EQ(verified({lines[0], lines[1], lines[1]}), "2");
  EXPECT_EQ(verified({lines[0], lines[2], lines[1]}), "2");
  EXPECT_EQ(verified({lines[1], lines[0]}), "1");
}

TEST(AuditChain, a_beginning_that_was_cut_needs_the_row_that_tells_it) {
  const auto whole = chain(1, 4, std::string(kAuditGenesis));
  const std::string hash = hash_in(whole[3]);
  EXPECT_EQ(verified(chain(5, 3, hash)), "end 5");
  EXPECT_EQ(verified(chain(5, 3, hash, audit_cut_details({.id = 4, .hash = hash}, 4))), "ok");
  EXPECT_EQ(verified(chain(5, 3, hash, audit_cut_details({.id = 3, .hash = hash}, 4))), "end 5");
  EXPECT_EQ(verified(chain(5, 3, hash, audit_cut_details({.id = 4, .hash = "x"}, 4))), "end 5");
}

TEST(AuditChain, an_end_that_was_cut_is_found_by_a_head_that_was_noted) {
  const auto lines = chain(1, 5, std::string(kAuditGenesis));
  const model::AuditHead noted{.id = 4, .hash = hash_in(lines[3])};
  EXPECT_EQ(verified(lines, noted), "ok");
  EXPECT_EQ(verified({lines[0], lines[1], lines[2]}, noted), "end 4");
  EXPECT_EQ(verified({}, noted), "end 1");
  // Written anew from the beginning.
  EXPECT_EQ(verified(chain(1, 5, std::string(64, '1')), noted), "4");
  // What is older than the log proves nothing, and is said.
  AuditVerifier verifier(model::AuditHead{.id = 1, .hash = hash_in(lines[0])});
  const auto rest =
      chain(2, 2, hash_in(lines[0]), audit_cut_details({.id = 1, .hash = hash_in(lines[0])}, 1));
  for (const auto& line : rest) {
    ASSERT_TRUE(verifier.add(line));
  }
  EXPECT_TRUE(verifier.finish()->noted_is_cut);
}

TEST(AuditChain, rows_that_are_older_than_the_chain_are_counted_and_stand_before_it) {
  const std::string older =
      audit_line({.id = 1, .at_ms = 1, .event = "x", .details_json = "{}"}, "");
  const auto lines = chain(2, 2, std::string(kAuditGenesis));
  AuditVerifier verifier;
  ASSERT_TRUE(verifier.add(older));
  ASSERT_TRUE(verifier.add(lines[0]));
  EXPECT_EQ(verifier.finish()->older_rows, 1);
  EXPECT_EQ(verified({chain(1, 1, std::string(kAuditGenesis))[0],
                      audit_line({.id = 2, .at_ms = 1, .event = "x"}, "")}),
            "2");
}

TEST(AuditChain, what_is_no_line_is_malformed) {
  for (const std::string_view line :
       {"", "{}", "{\"id\":1}", "{\"id\":x,", "[1]", "{\"id\":1,\"prev\":\"\"}"}) {
    EXPECT_EQ(verified({std::string(line)}), "malformed") << line;
  }
}

}  // namespace
}  // namespace wire
