#include "compose/plan.h"

#include <gtest/gtest.h>

#include "base/text.h"

namespace compose {
namespace {

using Words = std::vector<std::string>;

base::Result<std::vector<model::ContainerSpec>> compiled(std::string text) {
  return compile({.files = {std::move(text)}});
}

// The services' keys of one service with an image.
base::Result<std::vector<model::ContainerSpec>> with_keys(const std::string& keys) {
  return compiled("services:\n  main:\n    image: i\n    " + keys + "\n");
}

std::string field_of(const base::Result<std::vector<model::ContainerSpec>>& plan) {
  if (plan) {
    return "no error";
  }
  EXPECT_EQ(plan.error().code, base::ErrorCode::compose_invalid);
  for (const auto& [key, value] : plan.error().details) {
    if (key == "field") {
      return value;
    }
  }
  return "no field";
}

TEST(Plan, a_service_becomes_a_container) {
  const auto plan = compile({.files = {R"(
services:
  db:
    image: "db:${TAG:-1}"
    healthcheck: {test: ["CMD-SHELL", "test -f /ok"], interval: 1s, retries: 2, start_period: 30s}
  main:
    image: app
    init: true
    working_dir: /w
    entrypoint: ""
    command: sh -c 'echo $$A'
    user: "1000:1000"
    environment: [X=1, Y, Z]
    depends_on: {db: {condition: service_healthy}}
    restart: on-failure:3
    mem_limit: 64m
    cpus: 0.5
volumes: {}
)"},
                             .variables = {{"Y", "from outside"}}});
  ASSERT_TRUE(plan) << plan.error().message;
  ASSERT_EQ(plan->size(), 2U);
  const model::ContainerSpec& main = plan->front();
  EXPECT_EQ(main.name, "main");
  EXPECT_EQ(main.workdir, "/w");
  EXPECT_EQ(main.user, "1000:1000");
  EXPECT_EQ(main.service->entrypoint, Words{});
  EXPECT_EQ(main.service->command, (Words{"sh", "-c", "echo $A"}));
  EXPECT_EQ(main.environment, (model::EnvironmentMap{{"X", "1"}, {"Y", "from outside"}}));
  EXPECT_EQ(main.service->restart, model::Restart::on_failure);
  EXPECT_EQ(main.service->restarts_max, 3);
  EXPECT_EQ(main.memory_mb, 64);
  EXPECT_EQ(main.millicpus, 500);
  ASSERT_EQ(main.service->depends_on.size(), 1U);
  EXPECT_EQ(main.service->depends_on.front().condition, model::Condition::healthy);
  const model::ContainerSpec& db = plan->back();
  EXPECT_EQ(db.image, "db:1");
  ASSERT_TRUE(db.service->healthcheck);
  EXPECT_EQ(db.service->healthcheck->argv, (Words{"/bin/sh", "-c", "test -f /ok"}));
  EXPECT_EQ(db.service->healthcheck->interval_ms, 1000);
  EXPECT_EQ(db.service->healthcheck->timeout_ms, 30'000);
  EXPECT_EQ(db.hosts.at("main"), "127.0.0.1");
}

TEST(Plan, main_is_the_one_named_so_else_the_first_else_who_is_asked_for) {
  const std::string two = "services: {b: {image: i}, a: {image: i}}\n";
  EXPECT_EQ(compile({.files = {two}})->front().name, "b");
  EXPECT_EQ(compile({.files = {two}, .main = "a"})->front().name, "a");
  EXPECT_EQ(field_of(compile({.files = {two}, .main = "c"})), "main");
}

TEST(Plan, later_files_change_earlier_ones) {
  const auto plan = compile({.files = {R"(
services:
  main:
    image: one
    command: [a, b]
    environment: {A: "1", B: "1"}
    volumes: ["v:/data", "v:/other"]
    depends_on: [db]
  db: {image: d}
volumes: {v: , w: }
)",
                                       R"(
services:
  main:
    image: two
    command: [c]
    environment: [B=2, C=3]
    volumes: ["w:/data:ro"]
    depends_on: {db: {condition: service_started}}
  more: {image: m}
)"}});
  ASSERT_TRUE(plan) << plan.error().message;
  const model::ContainerSpec& main = plan->front();
  EXPECT_EQ(main.image, "two");
  EXPECT_EQ(main.service->command, Words{"c"});
  EXPECT_EQ(main.environment, (model::EnvironmentMap{{"A", "1"}, {"B", "2"}, {"C", "3"}}));
  ASSERT_EQ(main.mounts.size(), 2U);
  EXPECT_EQ(main.mounts[0].volume, "w");
  EXPECT_TRUE(main.mounts[0].read_only);
  EXPECT_EQ(main.mounts[1].target, "/other");
  EXPECT_EQ(plan->size(), 3U);
  EXPECT_EQ(field_of(compile({.files = {"services: {main: {image: i, deploy: {resources: {}}}}",
                                        "services: {main: {deploy: [x]}}"}})),
            "services.main.deploy");
}

TEST(Plan, anchors_and_merge_keys) {
  const auto plan = compiled(R"(
x-common: &common
  image: base
  environment: &env {A: "1"}
services:
  main: {<<: *common, command: x}
  other:
    <<: [*common]
    environment: {<<: *env, B: "2"}
)");
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->front().image, "base");
  EXPECT_EQ(plan->back().environment, (model::EnvironmentMap{{"A", "1"}, {"B", "2"}}));
}

TEST(Plan, what_is_not_supported_is_refused_by_its_name) {
  for (const auto& [keys, field] : std::vector<std::pair<std::string, std::string>>{
           {"privileged: true", "services.main.privileged"},
           {"devices: [/dev/kmsg]", "services.main.devices"},
           {"cap_add: [NET_ADMIN]", "services.main.cap_add"},
           {"extends: {service: x}", "services.main.extends"},
           {"network_mode: host", "services.main.network_mode"},
           {"volumes: [\"./src:/src\"]", "services.main.volumes.0"},
           {"volumes: [{type: bind, source: /x, target: /y}]", "services.main.volumes.0"},
           {"volumes: [\"nope:/data\"]", "services.main.volumes.0"},
           {"volumes: [/proc/x]", "services.main.volumes.0"},
           {"volumes: [/a/../b]", "services.main.volumes.0"},
           {"environment: {E: x$}", "services.main.environment.E"},
           {"environment: {F: '${MUST:?need it}'}", "services.main.environment.F"},
           {"depends_on: [nobody]", "services.main.depends_on.nobody"},
           {"networks: [nowhere]", "services.main.networks.nowhere"},
           {"build: .", "services.main.build"},
           {"env_file: .env", "services.main.env_file"},
           {"healthcheck: {interval: 1s}", "services.main.healthcheck.test"},
           {"healthcheck: {test: [x]}", "services.main.healthcheck.test"},
           {"restart: sometimes", "services.main.restart"},
           {"deploy: {replicas: 2}", "services.main.deploy.replicas"},
           {"deploy: {resources: {limits: {gpus: 1}}}",
            "services.main.deploy.resources.limits.gpus"},
           {"ports: [\"x:y\"]", "services.main.ports.0"},
           {"working_dir: relative", "services.main.working_dir"},
           {"extra_hosts: [\"a:host-gateway\"]", "services.main.extra_hosts"}}) {
    EXPECT_EQ(field_of(with_keys(keys)), field) << keys;
  }
  EXPECT_EQ(field_of(compiled("include: []\nservices: {main: {image: i}}")), "include");
  EXPECT_EQ(field_of(compiled("services: {main: {command: x}}")), "services.main.image");
  EXPECT_EQ(field_of(compiled("services: {}")), "services");
  EXPECT_EQ(field_of(compiled("services: {main: 1}")), "services.main");
  EXPECT_EQ(field_of(compiled("- x")), "files.0");
  EXPECT_EQ(field_of(compiled("a: !x 1")), "files.0");
  EXPECT_EQ(field_of(compiled("services: {main: {image: i}}\nvolumes: {v: {external: true}}")),
            "volumes.v.external");
}

TEST(Plan, keys_that_ask_for_nothing_are_taken) {
  for (const char* keys :
       {"privileged: false", "init: true", "x-foo: 1", "cap_add: [CHOWN]", "labels: [a=b]",
        "expose: [80]", "platform: linux/amd64", "entrypoint: null", "networks: [default]",
        "stop_grace_period: 5s", "healthcheck: {disable: true}", "healthcheck: {test: [NONE]}"}) {
    EXPECT_EQ(field_of(with_keys(keys)), "no error") << keys;
  }
}

TEST(Plan, one_port_for_two_services_is_refused_with_both_names) {
  const auto plan =
      compiled("services: {web: {image: i, ports: ['8080:80']}, api: {image: i, expose: [80]}}\n");
  EXPECT_EQ(field_of(plan), "services.api.ports");
  EXPECT_NE(plan.error().message.find("web and api"), std::string::npos);
  EXPECT_TRUE(
      compiled("services: {a: {image: i, ports: [80]}, b: {image: i, ports: ['80/udp']}}\n"));
}

TEST(Plan, networks_that_keep_services_apart_are_refused) {
  EXPECT_EQ(field_of(compiled("services: {main: {image: i, networks: [a]}, db: {image: i, "
                              "networks: [b]}}\nnetworks: {a: , b: }\n")),
            "services.main.networks");
  EXPECT_TRUE(
      compiled("services: {main: {image: i, networks: [a, b]}, db: {image: i, "
               "networks: {b: {aliases: [store]}}}}\nnetworks: {a: , b: }\n"));
}

TEST(Plan, a_ring_and_a_missing_healthcheck_are_refused_with_the_names) {
  const auto ring = compiled(
      "services: {a: {image: i, depends_on: [b]}, b: {image: i, depends_on: [c]}, c: {image: i, "
      "depends_on: [b]}}\n");
  EXPECT_EQ(field_of(ring), "services.b.depends_on");
  EXPECT_NE(ring.error().message.find("b -> c -> b"), std::string::npos);
  const std::string waits =
      "services: {a: {image: i, depends_on: {b: {condition: service_healthy}}}, b: {image: i";
  EXPECT_EQ(field_of(compiled(waits + ", healthcheck: {disable: true}}}\n")),
            "services.a.depends_on.b");
  EXPECT_TRUE(compiled(waits + "}}\n")) << "its image may have one";
}

TEST(Plan, profiles_leave_services_out) {
  const std::string text =
      "services: {main: {image: i, depends_on: {debug: {condition: service_started, required: "
      "false}}}, debug: {image: i, profiles: [dev]}}\n";
  EXPECT_EQ(compile({.files = {text}})->size(), 1U);
  EXPECT_EQ(compile({.files = {text}, .variables = {{"COMPOSE_PROFILES", "x,dev"}}})->size(), 2U);
}

TEST(Plan, env_files_and_builds_are_named_and_taken) {
  const Input input{.files = {R"(
services:
  main:
    build: {context: ., dockerfile: D2, target: t, args: {V: "${V:-1}"}}
    env_file: [a.env, {path: b.env, required: false}]
    environment: {P: "3"}
)"}};
  const auto needs = needs_of(input);
  ASSERT_TRUE(needs) << needs.error().message;
  ASSERT_EQ(needs->builds.size(), 1U);
  EXPECT_EQ(needs->builds.front().dockerfile, "D2");
  EXPECT_EQ(needs->builds.front().arguments.at("V"), "1");
  ASSERT_EQ(needs->env_files.size(), 2U);
  EXPECT_FALSE(needs->env_files.back().required);
  Input whole = input;
  whole.images = {{"main", "build:1"}};
  whole.env_files = {{"a.env", "P=1\nQ=2\n"}};
  const auto plan = compile(whole);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->front().image, "build:1");
  EXPECT_EQ(plan->front().environment, (model::EnvironmentMap{{"P", "3"}, {"Q", "2"}}));
}

TEST(Plan, a_service_extends_another_one) {
  const auto plan = compiled(R"(
services:
  base: {image: b, environment: {A: "1", B: "1"}, command: x, profiles: [never]}
  middle: {extends: base, environment: [B=2], profiles: [never]}
  main:
    extends: {service: middle}
    environment: {C: "3"}
    command: !reset null
    profiles: !override []
)");
  ASSERT_TRUE(plan) << plan.error().message;
  ASSERT_EQ(plan->size(), 1U);
  EXPECT_EQ(plan->front().image, "b");
  EXPECT_FALSE(plan->front().service->command);
  EXPECT_EQ(plan->front().environment, (model::EnvironmentMap{{"A", "1"}, {"B", "2"}, {"C", "3"}}));
  EXPECT_EQ(field_of(compiled("services: {a: {extends: b}, b: {extends: a}}")),
            "services.a.extends");
  EXPECT_EQ(field_of(compiled("services: {a: {extends: a}}")), "services.a.extends");
  EXPECT_EQ(field_of(compiled("services: {a: {extends: {service: b, x: 1}}}")),
            "services.a.extends.x");
}

TEST(Plan, a_service_extends_one_of_a_file_with_paths_from_there) {
  Input input{.files = {"services: {main: {extends: {service: base, file: lib/base.yaml}}}"}};
  auto needs = needs_of(input);
  ASSERT_TRUE(needs) << needs.error().message;
  ASSERT_EQ(needs->env_files.size(), 1U);
  EXPECT_EQ(needs->env_files.front().path, "lib/base.yaml");
  EXPECT_EQ(field_of(compile(input)), "services");
  input.env_files["lib/base.yaml"] =
      "services: {base: {build: {args: {A: '1'}}, env_file: own.env, extends: {service: root, "
      "file: "
      "root.yaml}}}";
  needs = needs_of(input);
  ASSERT_TRUE(needs) << needs.error().message;
  EXPECT_EQ(needs->env_files.front().path, "lib/root.yaml");
  input.env_files["lib/root.yaml"] = "services: {root: {image: r, user: '7'}}";
  needs = needs_of(input);
  ASSERT_TRUE(needs) << needs.error().message;
  ASSERT_EQ(needs->builds.size(), 1U);
  EXPECT_EQ(needs->builds.front().context, "lib/.");
  EXPECT_EQ(needs->env_files.front().path, "lib/own.env");
  input.env_files["lib/own.env"] = "FROM_FILE=1";
  input.images = {{"main", "build:1"}};
  const auto plan = compile(input);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->front().user, "7");
  EXPECT_EQ(plan->front().environment.at("FROM_FILE"), "1");
}

TEST(Plan, later_files_take_keys_away_or_put_others_in_their_place) {
  const auto plan = compile({.files = {R"(
services:
  main:
    image: i
    environment: {A: "1", B: "1"}
    expose: [80, 81]
    volumes: ["v:/data"]
    healthcheck: {test: x}
  gone: {image: i}
volumes: {v: }
)",
                                       R"(
services:
  main:
    environment: {A: !reset null}
    expose: !override [90]
    volumes: !reset []
    healthcheck: !override {disable: true}
  gone: !reset null
)"}});
  ASSERT_TRUE(plan) << plan.error().message;
  ASSERT_EQ(plan->size(), 1U);
  EXPECT_EQ(plan->front().environment, (model::EnvironmentMap{{"B", "1"}}));
  EXPECT_TRUE(plan->front().mounts.empty());
  EXPECT_TRUE(plan->front().service->no_healthcheck);
  // What has nothing to change is as if it stood there alone.
  const auto alone = compiled(
      "services: {main: {image: !override i, environment: {A: !reset x, B: '2'}, user: !reset 1}}");
  ASSERT_TRUE(alone) << alone.error().message;
  EXPECT_EQ(alone->front().environment, (model::EnvironmentMap{{"B", "2"}}));
  EXPECT_FALSE(alone->front().user);
}

TEST(Plan, configs_and_secrets_are_files_of_a_service) {
  const Input input{.files = {R"(
services:
  main:
    image: i
    secrets: [token, {source: key, target: /etc/key, uid: "1000", mode: 0400}]
    configs: [{source: app, target: /etc/app.conf, mode: "0640"}, plain]
secrets: {token: {environment: TOKEN}, key: {file: ./key.pem}}
configs: {app: {file: app.conf}, plain: {content: "a=${A}"}}
)"},
                    .variables = {{"TOKEN", "t"}, {"A", "1"}},
                    .env_files = {{"./key.pem", "k"}, {"app.conf", "c"}}};
  const auto plan = compile(input);
  ASSERT_TRUE(plan) << plan.error().message;
  std::map<std::string, model::ServiceFile> files;
  for (const model::ServiceFile& file : plan->front().service->files) {
    files[file.path] = file;
  }
  EXPECT_EQ(files.at("/run/secrets/token").content, "t");
  EXPECT_EQ(files.at("/run/secrets/token").mode, 0444U);
  EXPECT_EQ(files.at("/etc/key").content, "k");
  EXPECT_EQ(files.at("/etc/key").mode, 0400U);
  EXPECT_EQ(files.at("/etc/key").owner, "1000:0");
  EXPECT_EQ(files.at("/etc/app.conf").mode, 0640U);
  EXPECT_EQ(files.at("/plain").content, "a=1");
  const auto needs = needs_of(input);
  ASSERT_TRUE(needs) << needs.error().message;
  EXPECT_EQ(needs->env_files.size(), 2U);
  const std::string head = "services: {main: {image: i, secrets: [s]}}\nsecrets: {s: ";
  for (const auto& [entry, field] : std::vector<std::pair<std::string, std::string>>{
           {"{file: f}", "secrets.s.file"},
           {"{environment: NONE}", "secrets.s.environment"},
           {"{external: true}", "secrets.s.external"},
           {"{content: x}", "secrets.s.content"},
           {"{}", "secrets.s"},
           {"{file: f, environment: E}", "secrets.s"}}) {
    EXPECT_EQ(field_of(compiled(head + entry + "}\n")), field) << entry;
  }
  EXPECT_EQ(field_of(with_keys("secrets: [nope]")), "services.main.secrets.0");
  EXPECT_EQ(
      field_of(compiled("services: {main: {image: i, configs: [{source: c, target: /a/../b}]}}"
                        "\nconfigs: {c: {content: x}}\n")),
      "services.main.configs.0.target");
}

TEST(Plan, builds_may_have_their_dockerfile_and_secrets_of_the_project) {
  const auto needs = needs_of({.files = {R"(
services:
  main:
    build:
      dockerfile_inline: |
        FROM b
      secrets: [token, {source: key, target: id}]
secrets: {token: {environment: TOKEN}, key: {file: key.pem}}
)"}});
  ASSERT_TRUE(needs) << needs.error().message;
  const BuildNeed& build = needs->builds.front();
  EXPECT_EQ(build.dockerfile_inline, "FROM b\n");
  ASSERT_EQ(build.secrets.size(), 2U);
  EXPECT_EQ(build.secrets[0].variable, "TOKEN");
  EXPECT_EQ(build.secrets[1].id, "id");
  EXPECT_EQ(build.secrets[1].file, "key.pem");
  EXPECT_TRUE(needs->env_files.empty()) << "a build's secret goes to the builder alone";
}

TEST(Plan, what_grows_is_refused) {
  std::string services = "services:\n";
  for (size_t i = 0; i <= kServicesMax; ++i) {
    services += base::cat("  s", i, ": {image: i}\n");
  }
  EXPECT_EQ(field_of(compiled(services)), "services");
  std::string bomb = "x-0: &a0 [x,x,x,x,x,x,x,x,x,x]\n";
  for (int i = 1; i < 9; ++i) {
    bomb += base::cat("x-", i, ": &a", i, " [");
    for (int n = 0; n < 10; ++n) {
      bomb += base::cat("*a", i - 1, ",");
    }
    bomb += "]\n";
  }
  EXPECT_EQ(field_of(compiled(bomb + "services: {main: {image: i}}\n")), "files.0");
  EXPECT_EQ(field_of(compiled(std::string(kFileBytesMax + 1, ' '))), "files.0");
  EXPECT_EQ(field_of(compile({})), "files");
}

}  // namespace
}  // namespace compose
