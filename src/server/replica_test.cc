// Two gateways in one process on one store and one engine. Nothing tells them of each other's
// changes, as when the connection for that is lost: they look at the store themselves.
#include <gtest/gtest.h>

#include <latch>

#include "server/gateway_testing.h"

namespace server {
namespace {

using namespace std::chrono_literals;

struct ReplicaRoutes : ::testing::Test {
  ReplicaRoutes() { beat(); }
  // Each sees that the other lives.
  void beat() {
    for (auto* gateway : {a.get(), b.get()}) {
      if (gateway != nullptr) {
        gateway->run(beat_once(*gateway));
      }
    }
  }
  static Task<void> beat_once(TestGateway& gateway) {
    EXPECT_TRUE((co_await gateway.replicas.beat()).has_value());
    gateway.lifecycle.look_after_orphans();
  }
  static Task<void> leave(TestGateway& gateway) { co_await gateway.replicas.leave(); }
  // Time goes by in which only b lives.
  void outlive_a() {
    a.reset();
    for (int i = 0; i < 6; ++i) {
      ground.clock.advance(1s);
      beat();
    }
  }
  static std::string create(TestGateway& gateway, const std::string& image) {
    const Reply reply =
        gateway.call("POST", "/sandboxes?wait=0",
                     base::cat(R"({"image":")", image, R"(","cpus":1,"memory_mb":64})"));
    EXPECT_EQ(reply.status, 201) << reply.body;
    return std::string(reply.json().at("id").as_string());
  }
  std::vector<std::string> events(const std::string& id) {
    std::vector<std::string> out;
    const Reply reply = b->call("GET", "/sandboxes/" + id + "/events");
    for (const auto& row : reply.json().at("items").as_array()) {
      out.emplace_back(row.at("type").as_string());
    }
    return out;
  }

  Ground ground;
  std::unique_ptr<TestGateway> a =
      std::make_unique<TestGateway>(ground, service::LifecycleOptions{}, "rep-a");
  std::unique_ptr<TestGateway> b =
      std::make_unique<TestGateway>(ground, service::LifecycleOptions{}, "rep-b");
};

TEST_F(ReplicaRoutes, what_one_made_the_other_uses_and_ends) {
  const std::string id = a->make_ready();
  EXPECT_EQ(b->state(id), "ready");
  EXPECT_EQ(b->call("POST", "/sandboxes/" + id + "/run", R"({"argv":["true"]})").status, 200);
  EXPECT_EQ(b->call("DELETE", "/sandboxes/" + id + "?wait=10").status, 204);
  EXPECT_EQ(a->call("GET", "/sandboxes/" + id).status, 404);
  EXPECT_EQ(a->live.find(id), nullptr);
  EXPECT_EQ(ground.engine.size(), 0U);
}

TEST_F(ReplicaRoutes, each_lists_those_that_live) {
  EXPECT_EQ(a->call("GET", "/replicas").json().at("items").as_array().size(), 2U);
  outlive_a();
  const auto left = b->call("GET", "/replicas").json().at("items").as_array();
  ASSERT_EQ(left.size(), 1U);
  EXPECT_EQ(left[0].at("id").as_string(), "rep-b");
  EXPECT_TRUE(left[0].at("answers").as_bool());
}

TEST_F(ReplicaRoutes, a_start_whose_gateway_died_is_finished_by_the_other) {
  const std::string id = create(*a, "slow:latest");
  ASSERT_EQ(b->state(id), "starting");
  outlive_a();
  ground.engine.finish_start(id);
  EXPECT_TRUE(b->eventually([&] { return b->state(id) == "ready"; }));
  const auto types = events(id);
  EXPECT_EQ(std::ranges::count(types, "ready"), 1);
}

TEST_F(ReplicaRoutes, a_removal_whose_gateway_died_is_finished_by_the_other) {
  const std::string id = a->make_ready();
  ground.engine.set_available(false);
  EXPECT_EQ(a->call("DELETE", "/sandboxes/" + id).status, 202);
  a.reset();
  ground.engine.set_available(true);
  EXPECT_EQ(b->state(id), "deleting");
  outlive_a();
  EXPECT_TRUE(b->eventually([&] { return b->state(id) == "deleted"; }));
  EXPECT_EQ(ground.engine.size(), 0U);
}

Task<void> stand_still(net::BlockingPool& pool, std::latch& over) {
  auto wait = [&over] { over.wait(); };
  co_await pool.run(std::move(wait));
}

Task<void> go_on_later(Ground& ground, std::latch& over) {
  co_await ground.loop.sleep_until(net::Deadline::after(1ms));
  ground.clock.advance(6s);
  over.count_down();
}

Task<void> beat_behind_a_store_that_stands_still(Ground& ground, TestGateway& gateway) {
  std::latch over(1);
  net::TaskGroup group(ground.loop);
  group.spawn(stand_still(gateway.pool, over));
  group.spawn(go_on_later(ground, over));
  EXPECT_TRUE((co_await gateway.replicas.beat()).has_value());
  co_await group.join();
}

TEST_F(ReplicaRoutes, a_store_that_let_wait_makes_nobody_look_dead) {
  b->run(beat_behind_a_store_that_stands_still(ground, *b));
  EXPECT_TRUE(b->replicas.lives("rep-a"));
  ground.clock.advance(5s);
  b->run(beat_once(*b));
  EXPECT_FALSE(b->replicas.lives("rep-a"));
}

TEST_F(ReplicaRoutes, a_start_of_one_that_lives_is_left_to_it) {
  const std::string id = create(*a, "slow:latest");
  ASSERT_EQ(b->state(id), "starting");
  for (int i = 0; i < 8; ++i) {
    ground.clock.advance(1s);
    beat();
  }
  EXPECT_EQ(b->live.find(id)->row.replica, "rep-a");
}

TEST_F(ReplicaRoutes, what_was_read_late_takes_no_state_back) {
  const std::string id = create(*a, "slow:latest");
  ASSERT_EQ(b->state(id), "starting");
  const service::SandboxRow late = b->live.find(id)->row;
  ground.engine.finish_start(id);
  ASSERT_TRUE(a->eventually([&] { return a->state(id) == "ready"; }));
  ASSERT_EQ(b->state(id), "ready");
  b->lifecycle.take(late);
  EXPECT_EQ(b->live.find(id)->row.state, model::SandboxState::ready);
}

TEST_F(ReplicaRoutes, what_one_wrote_before_it_left_is_known_before_the_other_is_alone) {
  b->replicas.set_hearing(true);
  const std::string id = create(*a, "slow:latest");
  ASSERT_EQ(b->state(id), "starting");
  ground.engine.finish_start(id);
  ASSERT_TRUE(a->eventually([&] { return a->state(id) == "ready"; }));
  a->run(leave(*a));
  a.reset();
  b->run(beat_once(*b));
  EXPECT_FALSE(b->replicas.lives("rep-a"));
  EXPECT_FALSE(b->replicas.alone());
  EXPECT_EQ(b->call("POST", "/sandboxes/" + id + "/run", R"({"argv":["true"]})").status, 200);
  b->replicas.note_read(b->replicas.departures());
  EXPECT_TRUE(b->replicas.alone());
}

TEST_F(ReplicaRoutes, one_that_is_silent_may_go_on_so_the_other_is_not_alone) {
  b->replicas.set_hearing(true);
  const std::string id = create(*a, "slow:latest");
  ASSERT_EQ(b->state(id), "starting");
  for (int i = 0; i < 6; ++i) {
    ground.clock.advance(1s);
    b->run(beat_once(*b));
  }
  ASSERT_FALSE(b->replicas.lives("rep-a"));
  EXPECT_FALSE(b->replicas.alone());
}

TEST_F(ReplicaRoutes, one_that_died_left_nothing_at_the_engine_that_is_in_no_table) {
  model::SandboxSpec spec;
  spec.id = "sbx-leftover0000000000000";
  spec.containers.push_back({.image = "demo:latest"});
  const auto make = [](engine::Engine& engine, model::SandboxSpec made) -> Task<void> {
    co_await engine.create(std::move(made));
  };
  b->run(make(ground.engine, spec));
  const std::string id = create(*a, "slow:latest");
  ASSERT_EQ(b->state(id), "starting");
  outlive_a();
  EXPECT_TRUE(b->eventually([&] { return ground.engine.spec(spec.id) == nullptr; }));
  EXPECT_NE(ground.engine.spec(id), nullptr);
}

TEST_F(ReplicaRoutes, use_over_one_is_no_idleness_for_the_other) {
  const std::string id = a->make_ready(R"(,"lease_sec":10)");
  ground.clock.advance(8s);
  EXPECT_EQ(b->call("POST", "/sandboxes/" + id + "/run", R"({"argv":["true"]})").status, 200);
  const auto flush = [](TestGateway& gateway) -> Task<void> {
    co_await gateway.lifecycle.leases().flush();
  };
  b->run(flush(*b));
  ground.clock.advance(8s);  // past the lease that a knows of, and what it waits for others
  a->lifecycle.leases().check_due();
  a->run(flush(*a));
  EXPECT_EQ(a->state(id), "ready");
  ground.clock.advance(8s);
  a->lifecycle.leases().check_due();
  EXPECT_TRUE(a->eventually([&] { return a->state(id) == "deleted"; }));
  const auto types = events(id);
  EXPECT_EQ(std::ranges::count(types, "deleting"), 1);
}

TEST_F(ReplicaRoutes, one_admits_what_waits_at_the_other) {
  ASSERT_EQ(a->call("PATCH", "/teams/default", R"({"quota":{"sandboxes":1}})").status, 200);
  const std::string runs = a->make_ready();
  const std::string waits = create(*a, "demo:latest");
  EXPECT_EQ(a->state(waits), "queued");
  EXPECT_EQ(b->state(waits), "queued");
  EXPECT_EQ(b->call("DELETE", "/sandboxes/" + runs + "?wait=10").status, 204);
  EXPECT_TRUE(b->eventually([&] { return b->state(waits) == "ready"; }));
  EXPECT_EQ(a->state(waits), "ready");
}

TEST_F(ReplicaRoutes, a_token_and_a_ticket_of_one_are_good_at_the_other) {
  const auto made =
      a->call("POST", "/tokens", R"({"name":"other","scopes":["admin"],"role":"admin"})").json();
  const auto* secret = made.if_contains("secret");
  ASSERT_NE(secret, nullptr);
  b->token = std::string(secret->as_string());
  EXPECT_EQ(b->call("GET", "/sandboxes").status, 200);
  const auto ticket = a->call("POST", "/ws-tickets", "{}").json();
  const auto redeem = [](TestGateway& gateway, std::string text, bool& taken) -> Task<void> {
    taken = (co_await gateway.tickets.redeem(std::move(text))).has_value();
  };
  bool taken = false;
  b->run(redeem(*b, std::string(ticket.at("ticket").as_string()), taken));
  EXPECT_TRUE(taken);
  a->run(redeem(*a, std::string(ticket.at("ticket").as_string()), taken));
  EXPECT_FALSE(taken);
}

}  // namespace
}  // namespace server
