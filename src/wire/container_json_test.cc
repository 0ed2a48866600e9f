#include "wire/container_json.h"

#include <gtest/gtest.h>

namespace wire {
namespace {

model::ContainerSpec whole() {
  model::ContainerSpec container{.name = "db", .image = "i", .environment = {{"A", "1"}}};
  container.user = "u";
  container.workdir = "/w";
  container.hostname = "h";
  container.hosts = {{"main", "127.0.0.1"}};
  container.mounts = {{.volume = "v", .target = "/data", .read_only = true, .copy = false},
                      {.volume = "", .target = "/run", .size_mb = 3}};
  container.millicpus = 100;
  container.memory_mb = 64;
  container.pids = 10;
  container.registry.username = "who";
  container.registry.password = base::Secret("word");
  container.service = model::Service{.entrypoint = std::vector<std::string>{},
                                     .command = std::vector<std::string>{"a", "b"},
                                     .terminal = true,
                                     .restart = model::Restart::on_failure,
                                     .restarts_max = 2};
  container.service->healthcheck = model::Healthcheck{.argv = {"x"}, .retries = 7};
  container.service->depends_on = {
      {.container = "main", .condition = model::Condition::completed, .required = false}};
  return container;
}

TEST(ContainerJson, is_read_as_it_was_written) {
  const json::Object written = to_json(whole());
  const auto read = parse_container(written);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(to_json(*read), written);
  EXPECT_EQ(read->service->entrypoint, std::vector<std::string>{});
  EXPECT_EQ(read->service->healthcheck->retries, 7);
  EXPECT_EQ(read->registry.password.reveal(), "word");
}

TEST(ContainerJson, what_is_wrong_is_refused_whoever_wrote_it) {
  const auto changed = [](std::string_view field, json::Value value) {
    json::Object object = to_json(whole());
    object[field] = std::move(value);
    return parse_container(object).has_value();
  };
  EXPECT_TRUE(changed("image", "other"));
  EXPECT_FALSE(changed("name", "a/b"));
  EXPECT_FALSE(changed("name", ""));
  EXPECT_FALSE(changed("surprise", 1));
  EXPECT_FALSE(changed("workdir", "relative"));
  EXPECT_FALSE(changed("hosts", json::Object{{"a b", "127.0.0.1"}}));
  EXPECT_FALSE(changed("hosts", json::Object{{"a", "x\n10.0.0.1 bank"}}));
  for (const char* target : {"relative", "/a/../b", "/a//b", "/", ""}) {
    EXPECT_FALSE(changed(
        "mounts", json::Array{json::Object{
                      {"volume", "v"}, {"target", target}, {"read_only", false}, {"copy", false}}}))
        << target;
  }
}

TEST(ContainerJson, containers_are_some_and_of_different_names) {
  const json::Object one = to_json(whole());
  EXPECT_TRUE(parse_containers({one}));
  EXPECT_FALSE(parse_containers({}));
  EXPECT_FALSE(parse_containers({one, one}));
}

}  // namespace
}  // namespace wire
