#include "service/build_context.h"

#include <gtest/gtest.h>

#include "wire/tar_writer.h"

namespace service {
namespace {

using wire::tar::Entry;
using wire::tar::EntryType;

std::string member(Entry entry, const std::string& bytes = "") {
  entry.size = bytes.size();
  std::string out;
  wire::tar::append_head(out, entry);
  return out + bytes + std::string(wire::tar::padding(bytes.size()), '\0');
}
std::string dockerfile() { return member({.path = "./Dockerfile", .mode = 0644}, "FROM x\n"); }

base::Result<std::string> digest_of(const std::string& members, size_t piece = SIZE_MAX,
                                    const BuildOptions& options = {}, const char* team = "red") {
  const std::string archive = members + std::string(wire::tar::kEndBytes, '\0');
  BuildContext context;
  for (size_t at = 0; at < archive.size(); at += std::min(piece, archive.size())) {
    RETURN_IF_ERROR(context.take(std::string_view(archive).substr(at, piece)));
  }
  return context.finish(team, options);
}

// A digest, or why there is none.
std::string text(const base::Result<std::string>& digest) {
  return digest ? *digest : digest.error().message;
}

TEST(BuildContext, sees_names_modes_links_and_bytes_and_neither_times_nor_order) {
  const std::string file = member({.path = "a", .mode = 0644}, "one");
  const auto same = digest_of(dockerfile() + file);
  ASSERT_TRUE(same) << same.error().message;
  EXPECT_EQ(same->size(), 64U);
  EXPECT_EQ(text(digest_of(file + dockerfile())), *same);
  EXPECT_EQ(text(digest_of(dockerfile() + file, 1)), *same);
  const Entry later{.path = "./a", .mode = 0644, .uid = 7, .modified = {.seconds = 5}};
  EXPECT_EQ(text(digest_of(dockerfile() + member(later, "one"))), *same);
  for (const std::string& other :
       {member({.path = "b", .mode = 0644}, "one"), member({.path = "a", .mode = 0755}, "one"),
        member({.path = "a", .mode = 0644}, "onf"),
        file + member({.path = "d/", .type = EntryType::folder}),
        member({.path = "a", .type = EntryType::symlink, .target = "one"}), std::string()}) {
    EXPECT_NE(text(digest_of(dockerfile() + other)), *same);
  }
}

TEST(BuildContext, sees_options_and_team) {
  const std::string plain = text(digest_of(dockerfile()));
  BuildOptions target;
  target.target = "t";
  BuildOptions argument;
  argument.arguments["t"] = "";
  EXPECT_NE(text(digest_of(dockerfile(), SIZE_MAX, target)), plain);
  EXPECT_NE(text(digest_of(dockerfile(), SIZE_MAX, argument)), plain);
  EXPECT_NE(text(digest_of(dockerfile(), SIZE_MAX, {}, "blue")), plain);
}

TEST(BuildContext, refuses_what_leads_outside_or_is_no_file) {
  for (const Entry& bad : {Entry{.path = "../a"}, Entry{.path = "/a"}, Entry{.path = "d/../../a"},
                           Entry{.path = "a", .type = EntryType::hardlink, .target = "../b"},
                           Entry{.path = "a", .type = EntryType::character_device},
                           Entry{.path = "a", .type = EntryType::fifo}}) {
    const auto digest = digest_of(dockerfile() + member(bad));
    ASSERT_FALSE(digest) << bad.path;
    EXPECT_EQ(digest.error().code, base::ErrorCode::archive_invalid);
  }
}

TEST(BuildContext, wants_its_dockerfile_and_a_whole_archive) {
  const auto missing = digest_of(member({.path = "other", .mode = 0644}));
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, base::ErrorCode::dockerfile_invalid);
  BuildContext cut;
  ASSERT_TRUE(cut.take(dockerfile()));
  EXPECT_FALSE(cut.finish("red", {}));
}

}  // namespace
}  // namespace service
