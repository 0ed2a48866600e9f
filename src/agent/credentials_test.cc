#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/agent_testing.h"
#include "base/sys.h"

namespace agent {
namespace {

constexpr uid_t kUser = 65534;

Answer put(const TestAgent& agent, const std::string& body) {
  return agent.ask({.method = "PUT", .target = "/credentials", .body = body});
}

std::string read(const std::string& path) {
  auto text = base::sys::read_file(path, 10'000);
  return text ? *text : "(" + text.error().message + ")";
}

Config of_user() { return Config{.environment = {{"MINE", "kept"}}, .user = "65534:65534"}; }

TEST(Credentials, files_are_the_users_and_variables_are_those_of_commands_from_then_on) {
  const TestAgent agent(of_user());
  ASSERT_EQ(::chmod(agent.folder().c_str(), 0777), 0);
  const std::string path = agent.folder() + "/deep/token";
  const Answer first = put(agent, base::cat(R"({"files":{")", path,
                                            R"(":"one"},"variables":{"A":"1","MINE":"other"}})"));
  EXPECT_EQ(first.status, 200) << first.body;
  EXPECT_EQ(first.json().at("failed").as_array().size(), 0U) << first.body;
  struct stat status{};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777U, 0600U);
  EXPECT_EQ(status.st_uid, kUser);
  EXPECT_EQ(text_of(agent.shell("echo $A $MINE"), "stdout"), "1 kept\n");
  const Answer second =
      put(agent, base::cat(R"({"files":{")", path, R"(":"two"},"variables":{"B":"~/x"}})"));
  EXPECT_EQ(second.status, 200);
  EXPECT_EQ(read(path), "two");
  EXPECT_EQ(text_of(agent.shell("echo $A$B $MINE"), "stdout").find('~'), std::string::npos);
}

TEST(Credentials, a_link_leads_nowhere_that_the_user_may_not_write) {
  const TestAgent agent(of_user());
  ASSERT_EQ(::chmod(agent.folder().c_str(), 0777), 0);
  const std::string roots = agent.folder() + "/roots";
  ASSERT_TRUE(base::sys::replace_file(roots, "of root", 0644));
  const std::string link = agent.folder() + "/link";
  ASSERT_EQ(::symlink(roots.c_str(), link.c_str()), 0);
  const Answer answer = put(agent, base::cat(R"({"files":{")", link, R"(":"x"},"variables":{}})"));
  EXPECT_EQ(answer.status, 200);
  ASSERT_EQ(answer.json().at("failed").as_array().size(), 1U) << answer.body;
  EXPECT_EQ(read(roots), "of root");
}

TEST(Credentials, what_is_malformed_changes_nothing) {
  const TestAgent agent(of_user());
  EXPECT_EQ(put(agent, R"({"files":{},"variables":{"A":"1"}})").status, 200);
  for (const char* body : {"", "{}", R"({"files":[],"variables":{}})", R"({"files":{"a":1}})"}) {
    EXPECT_GE(put(agent, body).status, 400) << body;
  }
  EXPECT_EQ(text_of(agent.shell("echo $A"), "stdout"), "1\n");
}

TEST(Credentials, an_entrypoint_waits_for_them) {
  const TestAgent agent(Config{.environment = {},
                               .user = "",
                               .entrypoint = {"/bin/sh", "-c", "echo got $A"},
                               .await_credentials = true});
  EXPECT_EQ(agent.ask({.target = "/sessions"}).json().at("items").as_array().size(), 0U);
  EXPECT_EQ(put(agent, R"({"files":{},"variables":{"A":"it"}})").status, 200);
  EXPECT_EQ(put(agent, R"({"files":{},"variables":{"A":"more"}})").status, 200);
  EXPECT_TRUE(
      eventually([&] { return agent.ask({.target = "/sessions/main/logs"}).body == "got it\n"; }));
  EXPECT_EQ(agent.ask({.target = "/sessions"}).json().at("items").as_array().size(), 1U);
}

}  // namespace
}  // namespace agent
