#include "service/audit_spool.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

namespace service {
namespace {

struct Spool : testing::Test {
  Spool() {
    std::string pattern = testing::TempDir() + "spool-XXXXXX";
    folder = ::mkdtemp(pattern.data());
    path = folder + "/audit.spool";
    open();
  }
  ~Spool() override { std::filesystem::remove_all(folder); }
  void open() {
    found.clear();
    auto opened = AuditSpool::open(path, found);
    ASSERT_TRUE(opened.has_value()) << opened.error().message;
    spool = std::move(*opened);
  }
  uint64_t begin(const std::string& request, const std::string& details = "{}") {
    return *spool->begin({.team = "default",
                          .at_ms = 7,
                          .event = "command.run",
                          .caller = "ann",
                          .details_json = details},
                         request);
  }
  std::string folder;
  std::string path;
  std::vector<AuditSpool::Unfinished> found;
  std::unique_ptr<AuditSpool> spool;
};

TEST_F(Spool, what_has_not_ended_is_found_again_and_again_until_it_has) {
  const uint64_t first = begin("req-a");
  begin("req-b", R"({"argv":["a b\nc"]})");
  spool->end({first}, 12);
  for (int i = 0; i < 3; ++i) {
    open();
    ASSERT_EQ(found.size(), 1U);
    EXPECT_EQ(found[0].request_id, "req-b");
    EXPECT_EQ(found[0].row.caller, "ann");
    EXPECT_EQ(found[0].row.at_ms, 7);
    EXPECT_EQ(found[0].row.details_json, R"({"argv":["a b\nc"]})");
    EXPECT_EQ(spool->stored_through(), 12);
  }
  EXPECT_NE(begin("req-c"), found[0].number);
  spool->end({found[0].number}, 13);
  open();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].request_id, "req-c");
}

TEST_F(Spool, a_broken_line_hides_no_other) {
  begin("req-a");
  std::ofstream(path, std::ios::app) << "B 2 {\"request_id\":\"req-x\nB x\nE\nE x 9\nB 3 []\n\n";
  begin("req-b");
  std::ofstream(path, std::ios::app) << "B 9 {\"cut off";
  open();
  EXPECT_EQ(found.size(), 2U);
}

TEST_F(Spool, where_it_cannot_be_written_anew_it_goes_on_as_it_is) {
  begin("req-a");
  std::ofstream(path, std::ios::app) << "B 9 {\"cut off";
  std::filesystem::create_directories(path + ".new/in-the-way");  // as a full disk would be
  open();
  ASSERT_EQ(found.size(), 1U);
  begin("req-b");  // behind a line without an end
  std::filesystem::remove_all(path + ".new");
  open();
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[1].request_id, "req-b");
}

TEST_F(Spool, the_file_does_not_grow_with_what_has_ended) {
  const uint64_t open_one = begin("req-open");
  const std::string details = R"({"argv":[")" + std::string(4000, 'x') + R"("]})";
  for (int i = 0; i < 3000; ++i) {
    spool->end({begin("req-x", details)}, i);
  }
  EXPECT_LT(std::filesystem::file_size(path), 5U * 1024 * 1024);
  EXPECT_EQ(spool->open_count(), 1U);
  open();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].number, open_one);
}

}  // namespace
}  // namespace service
