#include "cli/copy_plan.h"

#include <gtest/gtest.h>

#include "cli/event_stream.h"

namespace cli {
namespace {

TEST(CopyPlan, the_side_with_an_id_is_the_remote_one) {
  const auto up = plan_copy("a.txt", "sbx-1:/tmp/b", CopyKind::file);
  ASSERT_TRUE(up);
  EXPECT_TRUE(up->upload);
  EXPECT_EQ(up->local, "a.txt");
  EXPECT_EQ(up->remote.id, "sbx-1");
  EXPECT_EQ(up->remote.path, "/tmp/b");
  const auto down = plan_copy("sbx-1:c:d", "-", CopyKind::file);
  ASSERT_TRUE(down);
  EXPECT_FALSE(down->upload);
  EXPECT_EQ(down->remote.path, "c:d");
  EXPECT_EQ(down->local, "-");
}

TEST(CopyPlan, a_folder_destination_gets_the_sources_name) {
  EXPECT_EQ(plan_copy("dir/a.txt", "sbx-1:/tmp/", CopyKind::file)->remote.path, "/tmp/a.txt");
  EXPECT_FALSE(plan_copy("-", "sbx-1:/tmp/", CopyKind::file));
}

TEST(CopyPlan, paths_with_colons_stay_here) {
  EXPECT_FALSE(parse_remote_path("./a:b"));
  EXPECT_FALSE(parse_remote_path("/a:b"));
  EXPECT_FALSE(parse_remote_path("A:b"));
  EXPECT_FALSE(parse_remote_path(":b"));
}

TEST(CopyPlan, needs_exactly_one_remote_side) {
  EXPECT_FALSE(plan_copy("a", "b", CopyKind::file));
  EXPECT_FALSE(plan_copy("s-1:/a", "s-2:/b", CopyKind::file));
  EXPECT_FALSE(plan_copy("a", "s-1:", CopyKind::file));
}

std::vector<StreamEvent> decode(std::string_view first, std::string_view second) {
  std::vector<StreamEvent> events;
  EventStreamDecoder decoder;
  const auto take = [&](const StreamEvent& event) -> Result<void> {
    events.push_back(event);
    return {};
  };
  EXPECT_TRUE(decoder.feed(first, take));
  EXPECT_TRUE(decoder.feed(second, take));
  return events;
}

TEST(EventStream, takes_any_split_and_all_line_ends) {
  const std::string_view text =
      "id: 7\r\ndata: a\r\ndata: b\r\n\r\n: comment\n\nevent: e\ndata:c\n\ndata: cut";
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    const auto events = decode(text.substr(0, cut), text.substr(cut));
    ASSERT_EQ(events.size(), 2U) << cut;
    EXPECT_EQ(events[0].id, "7");
    EXPECT_EQ(events[0].data, "a\nb");
    EXPECT_EQ(events[0].type, "message");
    EXPECT_EQ(events[1].type, "e");
    EXPECT_EQ(events[1].data, "c");
    EXPECT_EQ(events[1].id, "7");
  }
}

TEST(EventStream, endless_events_are_refused) {
  EventStreamDecoder decoder;
  const std::string piece = "data: " + std::string(kEventBytesMax, 'x');
  EXPECT_FALSE(decoder.feed(piece, [](const StreamEvent&) -> Result<void> { return {}; }));
}

}  // namespace
}  // namespace cli
