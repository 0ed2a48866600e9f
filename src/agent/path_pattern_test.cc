#include "agent/path_pattern.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/sys.h"

namespace agent {
namespace {

TEST(PathPattern, fits_names_as_a_shell_does) {
  EXPECT_TRUE(fits_pattern("*", "a"));
  EXPECT_FALSE(fits_pattern("*", ".a"));
  EXPECT_TRUE(fits_pattern(".*", ".a"));
  EXPECT_TRUE(fits_pattern("a*b*c", "aXbYbZc"));
  EXPECT_FALSE(fits_pattern("a*b*c", "aXbYbZ"));
  EXPECT_TRUE(fits_pattern("?[a-c][!x]", "zby"));
  EXPECT_FALSE(fits_pattern("?[a-c][!x]", "zbx"));
  EXPECT_TRUE(fits_pattern("[]a]", "]"));
  EXPECT_TRUE(fits_pattern("[a", "[a")) << "a class without an end is plain text";
  EXPECT_TRUE(fits_pattern("\\*", "*"));
  EXPECT_FALSE(fits_pattern("\\*", "x"));
  EXPECT_FALSE(fits_pattern("", "x"));
}

TEST(PathPattern, takes_time_that_does_not_explode) {
  std::string pattern;
  for (int i = 0; i < 100; ++i) {
    pattern += "*a";
  }
  EXPECT_FALSE(fits_pattern(pattern + "b", std::string(4000, 'a')));
}

TEST(PathPattern, expands_to_what_is_there) {
  char name[] = "/tmp/path_pattern_test.XXXXXX";
  const std::string folder = ::mkdtemp(name);
  for (const std::string_view file : {"/d1/a.txt", "/d1/b.txt", "/d2/a.txt", "/d2/[x]"}) {
    const std::string path = base::cat(folder, file);
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    ASSERT_TRUE(base::sys::replace_file(path, "", 0644));
  }
  using Paths = std::vector<std::string>;
  EXPECT_EQ(expand_pattern(folder + "/d*/a.txt", "/root"),
            (Paths{folder + "/d1/a.txt", folder + "/d2/a.txt"}));
  EXPECT_EQ(expand_pattern("~/d1/*", folder), (Paths{folder + "/d1/a.txt", folder + "/d1/b.txt"}));
  EXPECT_EQ(expand_pattern(folder + "/d2/\\[x\\]", "/"), (Paths{folder + "/d2/[x]"}));
  EXPECT_EQ(expand_pattern(folder + "/none*", "/"), (Paths{folder + "/none*"}));
  EXPECT_EQ(expand_pattern("\\~/a b", "/"), (Paths{"~/a b"}));
  EXPECT_EQ(expand_pattern("~", "/home/x"), (Paths{"/home/x"}));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace agent
