#include "agent/service.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "agent/agent_testing.h"
#include "agent/populate.h"

namespace agent {
namespace {

using wire::json::Object;

Config config_of(ServiceConfig service) { return {.service = std::move(service)}; }

Answer post(const TestAgent& agent, const char* ending) {
  return agent.ask({.method = "POST", .target = base::cat("/service", ending)});
}

Object now(const TestAgent& agent) {
  const Answer answer = agent.ask({.target = "/service"});
  EXPECT_EQ(answer.status, 200) << answer.body;
  return answer.json();
}

bool becomes(const TestAgent& agent, std::string_view name, std::string_view value) {
  return eventually([&] { return text_of(now(agent), name) == value; });
}

ServiceConfig shell(std::string script) { return {.argv = {"/bin/sh", "-c", std::move(script)}}; }

model::Healthcheck check(std::string script) {
  return {.argv = {"/bin/sh", "-c", std::move(script)}, .interval_ms = 20, .retries = 2};
}

TEST(Service, runs_once_when_it_is_told_and_says_how_it_ended) {
  const TestAgent agent(config_of(shell("echo said; exit 3")));
  EXPECT_EQ(text_of(now(agent), "state"), "waiting");
  EXPECT_EQ(post(agent, "/start").status, 200);
  EXPECT_EQ(post(agent, "/start").status, 200);
  EXPECT_TRUE(becomes(agent, "state", "exited"));
  const Object end = now(agent);
  EXPECT_EQ(end.at("exit_code"), 3);
  EXPECT_EQ(end.at("restarts"), 0);
  EXPECT_EQ(text_of(end, "output"), "said\n");
  EXPECT_EQ(text_of(end, "health"), "none");
}

TEST(Service, runs_again_as_often_as_its_policy_says) {
  ServiceConfig service = shell("exit 1");
  service.restart = model::Restart::on_failure;
  service.restarts_max = 2;
  const TestAgent agent(config_of(service));
  post(agent, "/start");
  EXPECT_TRUE(becomes(agent, "state", "exited"));
  EXPECT_EQ(now(agent).at("restarts"), 2);
}

TEST(Service, one_that_is_stopped_is_not_run_again) {
  ServiceConfig service = shell("exec sleep 1000");
  service.restart = model::Restart::always;
  const TestAgent agent(config_of(service));
  post(agent, "/start");
  EXPECT_TRUE(becomes(agent, "state", "running"));
  EXPECT_EQ(post(agent, "/stop").status, 200);
  EXPECT_TRUE(becomes(agent, "state", "exited"));
}

TEST(Service, is_healthy_as_soon_as_its_check_says_so) {
  ServiceConfig service = shell("exec sleep 1000");
  service.healthcheck = check("test -e /tmp/service-test-$PPID");
  service.healthcheck->start_period_ms = 600'000;
  const std::string mark = base::cat("/tmp/service-test-", ::getpid());
  const TestAgent agent(config_of(service));
  post(agent, "/start");
  EXPECT_EQ(text_of(now(agent), "health"), "starting");
  std::ofstream(mark).close();
  EXPECT_TRUE(becomes(agent, "health", "healthy"));
  std::filesystem::remove(mark);
  EXPECT_TRUE(becomes(agent, "health", "unhealthy"));
}

TEST(Service, a_check_that_fails_or_hangs_makes_it_unhealthy) {
  for (const char* script : {"echo why; exit 1", "echo why; sleep 1000"}) {
    ServiceConfig service = shell("exec sleep 1000");
    service.healthcheck = check(script);
    service.healthcheck->timeout_ms = 200;
    const TestAgent agent(config_of(service));
    post(agent, "/start");
    EXPECT_TRUE(becomes(agent, "health", "unhealthy")) << script;
    EXPECT_TRUE(text_of(now(agent), "check_output").starts_with("why\n"));
  }
}

TEST(Service, a_question_waits_for_news) {
  const TestAgent agent(config_of(shell("exec sleep 1000")));
  const int64_t version = now(agent).at("version").as_int64();
  TestClient client(agent.socket_path());
  client.send(Asked{.target = base::cat("/service?version=", version, "&wait=60")});
  post(agent, "/start");
  EXPECT_EQ(text_of(client.receive().json(), "state"), "running");
}

TEST(Service, a_container_without_one_has_no_such_route) {
  const TestAgent agent;
  EXPECT_EQ(agent.ask({.target = "/service"}).status, 404);
  EXPECT_EQ(post(agent, "/start").status, 404);
}

class Populate : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/populate-test-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    folder_ = name;
    std::filesystem::create_directories(folder_ + "/from/deep");
    std::filesystem::create_directories(folder_ + "/to");
    std::ofstream(folder_ + "/from/deep/file") << "text";
    std::filesystem::create_symlink("/etc/passwd", folder_ + "/from/link");
    ::mkfifo((folder_ + "/from/pipe").c_str(), 0600);
    ::chmod((folder_ + "/from/deep/file").c_str(), 0640);
    from_ = base::Fd(::open((folder_ + "/from").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    to_ = base::Fd(::open((folder_ + "/to").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string folder_;
  base::Fd from_, to_;
};

TEST_F(Populate, copies_into_an_empty_folder_what_can_be_copied) {
  const auto done = populate(from_.get(), to_.get());
  ASSERT_TRUE(done) << done.error().message;
  std::string text;
  std::ifstream(folder_ + "/to/deep/file") >> text;
  EXPECT_EQ(text, "text");
  struct stat status{};
  EXPECT_EQ(::stat((folder_ + "/to/deep/file").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0640U);
  EXPECT_EQ(std::filesystem::read_symlink(folder_ + "/to/link"), "/etc/passwd");
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/to/pipe"));
}

TEST_F(Populate, leaves_a_folder_alone_that_holds_something) {
  std::ofstream(folder_ + "/to/mine").close();
  EXPECT_TRUE(populate(from_.get(), to_.get()));
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/to/deep"));
}

}  // namespace
}  // namespace agent
