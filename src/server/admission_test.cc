#include <gtest/gtest.h>

#include <algorithm>

#include "server/gateway_testing.h"

namespace server {
namespace {

using namespace std::chrono_literals;

struct AdmissionRoutes : ::testing::Test {
  AdmissionRoutes() { start(); }
  void start(service::LifecycleOptions options = {}) {
    gateway.reset();
    gateway = std::make_unique<TestGateway>(ground, options);
    gateway->access.add({.id = "tok-b",
                         .team = "b",
                         .subject = "somebody",
                         .scopes = {"member"},
                         .hash = service::token_hash("of-b")});
  }

  void put_team(const std::string& name, std::optional<int64_t> sandboxes, bool reclaim = false) {
    service::Team team;
    team.name = name;
    team.quota_sandboxes = sandboxes;
    team.reclaim = reclaim;
    gateway->run(store_team(*gateway, team));
    gateway->teams.put(team);
  }
  static net::Task<void> store_team(TestGateway& gateway, service::Team team) {
    auto work = [&gateway, &team] { return gateway.store->put_team(team); };
    EXPECT_TRUE((co_await gateway.pool.run(std::move(work))).has_value());
  }

  std::string create(const std::string& of_team = "default", const std::string& extra = "") {
    const std::string token = gateway->token;
    gateway->token = of_team == "b" ? "of-b" : token;
    const Reply reply =
        gateway->call("POST", "/sandboxes?wait=0",
                      base::cat(R"({"image":"demo:latest","cpus":1,"memory_mb":64)", extra, "}"));
    gateway->token = token;
    EXPECT_EQ(reply.status, 201) << reply.body;
    return reply.status == 201 ? std::string(reply.json().at("id").as_string()) : "";
  }
  // In the memory of the gateway: of any team.
  std::string state(const std::string& id) {
    const auto live = gateway->live.find(id);
    return live ? std::string(model::to_string(live->row.state)) : "gone";
  }
  bool becomes(const std::string& id, const std::string& wanted) {
    return gateway->eventually([&] { return state(id) == wanted; });
  }
  wire::json::Object get(const std::string& id) {
    return gateway->call("GET", "/sandboxes/" + id).json();
  }
  void remove(const std::string& id) {
    EXPECT_EQ(gateway->call("DELETE", "/sandboxes/" + id + "?wait=10").status, 204);
  }
  std::vector<std::string> event_types(const std::string& id) {
    std::vector<std::string> out;
    const Reply reply = gateway->call("GET", "/sandboxes/" + id + "/events");
    for (const auto& event : reply.json().at("items").as_array()) {
      out.emplace_back(event.at("type").as_string());
    }
    return out;
  }

  Ground ground;
  std::unique_ptr<TestGateway> gateway;
};

TEST_F(AdmissionRoutes, beyond_the_quota_a_sandbox_is_queued_and_tells_its_place) {
  put_team("default", 1);
  const std::string first = create();
  const std::string second = create();
  const std::string third = create();
  EXPECT_TRUE(becomes(first, "ready"));
  const auto row = get(second);
  EXPECT_EQ(row.at("state").as_string(), "queued");
  EXPECT_EQ(row.at("queue").at("position").as_int64(), 1);
  EXPECT_NE(row.at("queue").at("reason").as_string().find("sandboxes"), std::string::npos);
  EXPECT_TRUE(row.at("admitted_at").is_null());
  EXPECT_EQ(get(third).at("queue").at("position").as_int64(), 2);
  EXPECT_TRUE(get(first).at("queue").is_null());
  remove(first);
  EXPECT_TRUE(becomes(second, "ready"));
  EXPECT_EQ(get(third).at("queue").at("position").as_int64(), 1);
  auto types = event_types(second);
  ASSERT_GE(types.size(), 5U);
  types.resize(5);
  EXPECT_EQ(types,
            (std::vector<std::string>{"created", "queued", "admitted", "starting", "ready"}));
  EXPECT_EQ(ground.engine.size(), 1U);
}

TEST_F(AdmissionRoutes, a_queued_one_is_deleted_without_the_engine) {
  put_team("default", 1);
  const std::string first = create();
  EXPECT_TRUE(becomes(first, "ready"));
  const std::string second = create();
  const std::string third = create();
  ground.engine.set_available(false);
  remove(second);
  EXPECT_EQ(get(third).at("queue").at("position").as_int64(), 1);
  ground.engine.set_available(true);
  remove(first);
  EXPECT_TRUE(becomes(third, "ready"));
}

TEST_F(AdmissionRoutes, what_could_never_be_admitted_is_refused) {
  service::Team team;
  team.name = "default";
  team.quota_millicpus = 1500;
  gateway->run(store_team(*gateway, team));
  gateway->teams.put(team);
  const Reply reply =
      gateway->call("POST", "/sandboxes", R"({"image":"demo:latest","cpus":2,"memory_mb":64})");
  EXPECT_EQ(reply.code(), "quota_never");
  EXPECT_EQ(reply.field(), "cpus");
}

TEST_F(AdmissionRoutes, raising_admits_and_lowering_ends_nothing) {
  put_team("default", 1);
  const std::string first = create();
  const std::string second = create();
  const std::string third = create();
  EXPECT_TRUE(becomes(first, "ready"));
  put_team("default", 2);
  EXPECT_TRUE(becomes(second, "ready"));
  EXPECT_EQ(state(third), "queued");
  put_team("default", 1);
  const std::string fourth = create();
  remove(first);
  EXPECT_EQ(state(second), "ready");
  EXPECT_EQ(state(third), "queued");
  put_team("default", std::nullopt);
  EXPECT_TRUE(becomes(third, "ready"));
  EXPECT_TRUE(becomes(fourth, "ready"));
}

TEST_F(AdmissionRoutes, waiting_has_an_end) {
  put_team("default", 1);
  create();
  const std::string second = create();
  ground.clock.advance(86'400s);
  gateway->lifecycle.leases().check_due();
  EXPECT_EQ(state(second), "failed");
  EXPECT_EQ(get(second).at("reason").as_string(), "queue_timeout");
  EXPECT_TRUE(get(second).at("queue").is_null());
}

TEST_F(AdmissionRoutes, those_who_wait_are_found_again_after_a_restart) {
  put_team("default", 1);
  const std::string first = create();
  const std::string second = create();
  const std::string third = create();
  EXPECT_TRUE(becomes(first, "ready"));
  start();
  EXPECT_EQ(get(second).at("queue").at("position").as_int64(), 1);
  EXPECT_EQ(get(third).at("queue").at("position").as_int64(), 2);
  remove(first);
  EXPECT_TRUE(becomes(second, "ready"));
  EXPECT_EQ(state(third), "queued");
}

TEST_F(AdmissionRoutes, one_that_is_admitted_while_the_engine_is_asked_is_not_missed_there) {
  put_team("default", 1);
  create();
  const std::string waiting = create();
  ASSERT_EQ(state(waiting), "queued");
  ground.engine.hold_lists(true);
  ground.engine.set_available(false);
  ground.engine.set_available(true);
  ASSERT_TRUE(gateway->eventually([&] { return ground.engine.lists_held() == 1; }));
  put_team("default", 2);
  ASSERT_TRUE(becomes(waiting, "ready"));
  ground.engine.hold_lists(false);
  ASSERT_TRUE(gateway->eventually([&] { return ground.engine.lists_held() == 0; }));
  EXPECT_EQ(gateway->call("POST", "/sandboxes/" + waiting + "/run", R"({"argv":["true"]})").status,
            200);
  EXPECT_EQ(state(waiting), "ready");
}

TEST_F(AdmissionRoutes, a_failed_one_gives_its_quota_back) {
  put_team("default", 1);
  const std::string first = create();
  EXPECT_TRUE(becomes(first, "ready"));
  const std::string second = create();
  ground.engine.die(first, "out_of_memory", "killed");
  EXPECT_TRUE(becomes(second, "ready"));
  EXPECT_EQ(state(first), "failed");
  remove(first);  // which gives nothing back once more
  EXPECT_EQ(state(create()), "queued");
}

TEST_F(AdmissionRoutes, an_owner_gets_back_what_was_borrowed) {
  put_team("default", 1);
  put_team("b", 1, true);
  const std::string first = create();
  ground.clock.advance(1ms);  // the older one is within the quota
  const std::string second = create();
  EXPECT_TRUE(becomes(second, "ready"));
  EXPECT_EQ(get(first).at("borrowed").at("cpus").as_int64(), 0);
  const std::string owner = create("b");
  EXPECT_TRUE(becomes(owner, "ready"));
  EXPECT_EQ(state(first), "ready");
  EXPECT_EQ(state(second), "failed");
  EXPECT_EQ(get(second).at("reason").as_string(), "preempted");
  EXPECT_EQ(gateway->call("POST", "/sandboxes/" + second + "/run", R"({"argv":["true"]})").code(),
            "not_ready");
}

TEST_F(AdmissionRoutes, quotas_show_own_borrowed_and_lent) {
  put_team("default", 1);
  put_team("b", 2);
  create();
  const std::string second = create();
  EXPECT_TRUE(becomes(second, "ready"));
  create();
  create();  // the pool is used up
  const auto quotas = gateway->call("GET", "/quotas").json();
  const auto& b = quotas.at("items").as_array().at(0);
  const auto& own = quotas.at("items").as_array().at(1);
  EXPECT_EQ(own.at("team").as_string(), "default");
  EXPECT_EQ(own.at("used").at("sandboxes").as_int64(), 3);
  EXPECT_EQ(own.at("own").at("sandboxes").as_int64(), 1);
  EXPECT_EQ(own.at("borrowed").at("sandboxes").as_int64(), 2);
  EXPECT_EQ(own.at("queued").as_int64(), 1);
  EXPECT_TRUE(own.at("quota").at("cpus").is_null());
  EXPECT_EQ(b.at("lent").at("sandboxes").as_int64(), 2);
  EXPECT_EQ(quotas.at("pool").at("size").at("sandboxes").as_int64(), 3);
}

TEST_F(AdmissionRoutes, the_operators_total_is_over_all_teams) {
  start({.total = {std::nullopt, std::nullopt, std::nullopt, 1}});
  put_team("b", std::nullopt);
  const std::string first = create();
  const std::string second = create("b");
  EXPECT_TRUE(becomes(first, "ready"));
  EXPECT_EQ(state(second), "queued");
  remove(first);
  EXPECT_TRUE(becomes(second, "ready"));
}

TEST_F(AdmissionRoutes, draining_a_team_ends_its_sandboxes_and_lets_it_make_none) {
  put_team("default", 1);
  put_team("b", std::nullopt);
  const std::string first = create();
  const std::string queued = create();
  const std::string other = create("b");
  EXPECT_TRUE(becomes(first, "ready"));
  EXPECT_TRUE(becomes(other, "ready"));
  const Reply drained = gateway->call("POST", "/teams/default/drain");
  EXPECT_EQ(drained.status, 200) << drained.body;
  EXPECT_EQ(drained.json().at("ending").as_int64(), 2);
  EXPECT_TRUE(becomes(first, "gone"));
  EXPECT_TRUE(becomes(queued, "gone"));
  EXPECT_EQ(state(other), "ready");
  const auto archived = gateway->call("GET", "/sandboxes/" + first + "?all=true").json();
  EXPECT_EQ(archived.at("reason").as_string(), "team_drained");
  const std::string body = R"({"image":"demo:latest","cpus":1,"memory_mb":64})";
  EXPECT_EQ(gateway->call("POST", "/sandboxes", body).code(), "draining");
  start();
  EXPECT_EQ(gateway->call("POST", "/sandboxes", body).code(), "draining");
  EXPECT_EQ(gateway->call("DELETE", "/teams/default/drain").status, 200);
  EXPECT_TRUE(becomes(create(), "ready"));
  EXPECT_EQ(gateway->call("POST", "/teams/nobody/drain").code(), "not_found");
}

// Many at once: in order, never more than the quota at the engine, none lost.
TEST_F(AdmissionRoutes, many_creates_at_once_are_admitted_in_order_within_the_quota) {
  constexpr size_t kQuota = 5;
  constexpr size_t kCreates = 50;
  put_team("default", kQuota);
  std::vector<std::unique_ptr<net::Stream>> clients;
  const std::string body = R"({"image":"demo:latest","cpus":1,"memory_mb":64})";
  net::TaskGroup group(ground.loop);
  const std::string bytes = gateway->head("POST", "/sandboxes", body.size()) + body;
  for (size_t i = 0; i < kCreates; ++i) {
    clients.push_back(gateway->connect());
    group.spawn([](net::Stream& stream, std::string request) -> net::Task<void> {
      co_await stream.write_all(request, 10s);
    }(*clients.back(), bytes));
  }
  ASSERT_TRUE(gateway->eventually([&] { return gateway->live.all().size() == kCreates; }));
  std::vector<std::pair<int64_t, std::string>> order;
  for (const auto& [id, live] : gateway->live.all()) {
    order.emplace_back(live->row.ticket, id);
  }
  std::ranges::sort(order);
  for (size_t i = 0; i < kCreates; ++i) {
    const std::string& id = order[i].second;
    ASSERT_TRUE(becomes(id, "ready")) << i;
    EXPECT_LE(ground.engine.size(), kQuota);
    const size_t behind = std::min(kCreates, i + kQuota);
    for (size_t later = behind; later < kCreates; ++later) {
      EXPECT_EQ(state(order[later].second), "queued") << i;
    }
    remove(id);
  }
  EXPECT_EQ(ground.engine.size(), 0U);
}

TEST_F(AdmissionRoutes, a_stepped_clock_ends_nothing_that_is_in_use) {
  const std::string id = gateway->make_ready(R"(,"lease_sec":100)");
  for (const auto step : {base::Milliseconds(3600s), base::Milliseconds(-7200s)}) {
    ground.clock.step(step);
    gateway->lifecycle.leases().check_due();
    EXPECT_EQ(state(id), "ready");
    gateway->run(gateway->lifecycle.leases().follow_clock());
    gateway->lifecycle.leases().check_due();
    EXPECT_EQ(state(id), "ready");
    // What is shown and stored is by the clock as it is now.
    const int64_t left =
        gateway->live.find(id)->row.lease_expires_ms - base::to_ms(ground.clock.wall());
    EXPECT_GT(left, 95'000);
    EXPECT_LE(left, 100'000);
  }
  start();
  EXPECT_EQ(state(id), "ready");
  ground.clock.advance(99s);
  gateway->lifecycle.leases().check_due();
  EXPECT_EQ(state(id), "ready");
  ground.clock.advance(1001ms);
  gateway->lifecycle.leases().check_due();
  EXPECT_TRUE(becomes(id, "gone"));
}

}  // namespace
}  // namespace server
