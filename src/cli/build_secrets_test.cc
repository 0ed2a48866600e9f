#include "cli/build_secrets.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdio>
#include <fstream>

namespace cli {
namespace {

TEST(BuildSecretHeaders, come_from_files_and_variables) {
  const std::string path = testing::TempDir() + "build_secrets_test";
  std::ofstream(path) << "of a file";
  ::setenv("BUILD_SECRETS_TEST", "of a variable", 1);
  const auto headers = build_secret_headers(
      {"id=a,src=" + path, "type=env,id=b,env=BUILD_SECRETS_TEST"}, {"default=" + path});
  ASSERT_TRUE(headers) << headers.error().message;
  ASSERT_EQ(headers->size(), 2U);
  EXPECT_EQ(headers->at(0).first, "X-Build-Secrets");
  EXPECT_EQ(headers->at(0).second, R"({"a":"b2YgYSBmaWxl","b":"b2YgYSB2YXJpYWJsZQ=="})");
  EXPECT_EQ(headers->at(1).first, "X-Build-Ssh");
  EXPECT_EQ(headers->at(1).second, R"({"default":"b2YgYSBmaWxl"})");
  EXPECT_TRUE(build_secret_headers({}, {})->empty());
  std::remove(path.c_str());
}

TEST(BuildSecretHeaders, that_are_wrong_say_what_to_write) {
  for (const char* text : {"", "a", "id=a", "src=/x", "id=a,src=/x,env=Y", "id=a,src=/x,mode=1",
                           "id=a,env=BUILD_SECRETS_TEST_NONE", "id=a,src=/no/such/file"}) {
    EXPECT_FALSE(build_secret_headers({text}, {})) << text;
  }
  for (const char* text : {"default", "default=", "=/x", "default=/no/such/file"}) {
    EXPECT_FALSE(build_secret_headers({}, {text})) << text;
  }
}

}  // namespace
}  // namespace cli
