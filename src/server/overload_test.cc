#include "server/overload.h"

#include <gtest/gtest.h>

#include "server/gate.h"
#include "server/gateway_testing.h"

namespace server {
namespace {

constexpr int64_t kMemory = 24'000'000'000;

Load calm() {
  return {.lag_ms = 1,
          .open_files = 100,
          .files_max = 10'000,
          .memory_available = kMemory / 2,
          .memory_total = kMemory};
}

TEST(Overload, each_sign_alone_raises_the_pressure_step_by_step) {
  EXPECT_EQ(pressure_of(calm(), Pressure::none), Pressure::none);
  const auto with = [](auto change) {
    Load load = calm();
    change(load);
    return pressure_of(load, Pressure::none);
  };
  EXPECT_EQ(with([](Load& load) { load.lag_ms = 250; }), Pressure::heavy);
  EXPECT_EQ(with([](Load& load) { load.lag_ms = 1000; }), Pressure::other);
  EXPECT_EQ(with([](Load& load) { load.lag_ms = 5000; }), Pressure::inside);
  EXPECT_EQ(with([](Load& load) { load.open_files = 8'000; }), Pressure::heavy);
  EXPECT_EQ(with([](Load& load) { load.open_files = 9'000; }), Pressure::other);
  EXPECT_EQ(with([](Load& load) { load.open_files = 9'700; }), Pressure::inside);
  EXPECT_EQ(with([](Load& load) { load.memory_available = kMemory / 25; }), Pressure::heavy);
  EXPECT_EQ(with([](Load& load) { load.memory_available = kMemory / 50; }), Pressure::other);
  EXPECT_EQ(with([](Load& load) { load.memory_available = kMemory / 100; }), Pressure::inside);
  EXPECT_EQ(with([](Load& load) { load.files_max = load.memory_total = 0; }), Pressure::none);
}

TEST(Overload, a_level_is_left_only_well_below_where_it_began) {
  Load load = calm();
  load.lag_ms = 210;
  EXPECT_EQ(pressure_of(load, Pressure::none), Pressure::none);
  EXPECT_EQ(pressure_of(load, Pressure::heavy), Pressure::heavy);
  load.lag_ms = 199;
  EXPECT_EQ(pressure_of(load, Pressure::heavy), Pressure::none);
}

TEST(Overload, what_runs_is_refused_last_and_health_never) {
  for (const Pressure pressure :
       {Pressure::none, Pressure::heavy, Pressure::other, Pressure::inside}) {
    EXPECT_FALSE(is_refused(Work::health, pressure));
    EXPECT_EQ(is_refused(Work::inside, pressure), pressure == Pressure::inside);
    EXPECT_EQ(is_refused(Work::other, pressure), pressure >= Pressure::other);
    EXPECT_EQ(is_refused(Work::heavy, pressure), pressure >= Pressure::heavy);
  }
}

struct Gate : ::testing::Test {
  Ground ground;
  TestGateway gateway{ground};

  Load load_of(Pressure pressure) {
    Load load = calm();
    constexpr std::array<int64_t, 4> kLags{1, 250, 1000, 3000};
    load.lag_ms = kLags.at(static_cast<size_t>(pressure));
    return load;
  }
  std::string token_id() {
    return std::string(gateway.call("GET", "/audit-logs?event=sandbox.create")
                           .json()
                           .at("items")
                           .at(0)
                           .at("token")
                           .as_string());
  }
};

TEST_F(Gate, under_pressure_creates_go_first_then_lists_then_commands) {
  const std::string id = gateway.make_ready();
  const auto statuses = [&](Pressure pressure) {
    gateway.overload.take(load_of(pressure));
    return std::vector<int>{
        gateway.call("GET", "/healthz").status,
        gateway.call("POST", "/sandboxes/" + id + "/run", R"({"argv":["true"]})").status,
        gateway.call("GET", "/sandboxes").status,
        gateway.call("POST", "/sandboxes", R"({"image":"demo:latest","cpus":1,"memory_mb":64})")
            .status};
  };
  EXPECT_EQ(statuses(Pressure::heavy), (std::vector<int>{200, 200, 200, 429}));
  EXPECT_EQ(statuses(Pressure::other), (std::vector<int>{200, 200, 429, 429}));
  EXPECT_EQ(statuses(Pressure::inside), (std::vector<int>{200, 429, 429, 429}));
  const Reply refused = gateway.call("GET", "/sandboxes");
  EXPECT_EQ(refused.code(), "overloaded");
  EXPECT_EQ(refused.header("retry-after"), "10");
  gateway.overload.take(calm());
  EXPECT_EQ(statuses(Pressure::none), (std::vector<int>{200, 200, 200, 201}));
  EXPECT_EQ(gateway.overload.refused(Work::heavy), 3U);
}

TEST_F(Gate, large_uploads_are_heavy_and_small_ones_are_not) {
  const std::string id = gateway.make_ready();
  gateway.overload.take(load_of(Pressure::heavy));
  const std::string path = "/sandboxes/" + id + "/files?path=/tmp/a";
  EXPECT_EQ(gateway.call("PUT", path, "small").status, 200);
  EXPECT_EQ(gateway.call("PUT", path, std::string(size_t{2} * 1024 * 1024, 'x')).status, 429);
}

TEST_F(Gate, a_tokens_rate_is_told_and_refused_with_the_time_to_wait) {
  gateway.make_ready();
  const std::string id = token_id();
  const Reply set =
      gateway.call("PUT", "/tokens/" + id + "/limits", R"({"requests_per_sec":2,"body_mb":1})");
  ASSERT_EQ(set.status, 200) << set.body;
  EXPECT_EQ(set.json().at("effective").at("burst").as_int64(), 2);
  const Reply first = gateway.call("GET", "/sandboxes");
  EXPECT_EQ(first.status, 200);
  EXPECT_EQ(first.header("ratelimit-limit"), "2");
  EXPECT_EQ(first.header("ratelimit-remaining"), "1");
  EXPECT_EQ(gateway.call("GET", "/me").status, 200);
  const Reply refused = gateway.call("GET", "/me");
  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(refused.code(), "rate_limited");
  EXPECT_EQ(refused.header("retry-after"), "1");
  EXPECT_EQ(gateway.call("GET", "/healthz").status, 200);
  ground.clock.advance(std::chrono::seconds(5));
  EXPECT_EQ(gateway.call("POST", "/sandboxes", std::string(1024 * 1024 + 1, ' ')).status, 413);
  ground.clock.advance(std::chrono::seconds(5));
  EXPECT_EQ(gateway.call("DELETE", "/tokens/" + id + "/limits").status, 204);
  EXPECT_EQ(gateway.call("GET", "/me").header("ratelimit-limit"), "");
}

TEST_F(Gate, limits_outlive_the_gateway) {
  gateway.make_ready();
  const std::string id = token_id();
  ASSERT_EQ(gateway.call("PUT", "/tokens/" + id + "/limits", R"({"burst":7,"requests_per_sec":5})")
                .status,
            200);
  TestGateway next(ground);
  next.run([](TestGateway& one) -> Task<void> {
    EXPECT_TRUE((co_await one.token_limits.load()).has_value());
  }(next));
  EXPECT_EQ(next.limiter.limits_of(id).burst, 7);
}

TEST_F(Gate, limits_are_checked) {
  gateway.make_ready();
  const std::string path = "/tokens/" + token_id() + "/limits";
  for (const std::string_view body :
       {R"({"burst":-1})", R"({"burst":1000001})", R"({"burst":"x"})", R"({"colour":1})"}) {
    EXPECT_EQ(gateway.call("PUT", path, std::string(body)).status, 422) << body;
  }
  EXPECT_EQ(gateway.call("PUT", "/tokens/tok-none/limits", "{}").code(), "not_found");
  EXPECT_EQ(gateway.call("GET", "/tokens/tok-none/limits").code(), "not_found");
  EXPECT_EQ(gateway.call("DELETE", "/tokens/tok-none/limits").code(), "not_found");
}

TEST_F(Gate, streams_of_one_token_are_bounded) {
  const std::string id = gateway.make_ready();
  gateway.limiter.set(token_id(), service::TokenLimits{.concurrent_streams = 1});
  const auto open = gateway.connect();
  const std::string events = "/sandboxes/" + id + "/events?follow=true";
  gateway.run([](net::Stream& stream, std::string head) -> Task<void> {
    EXPECT_TRUE((co_await stream.write_all(head, base::Milliseconds(1000))).has_value());
  }(*open, gateway.head("GET", events, 0)));
  ASSERT_TRUE(
      gateway.eventually([&] { return gateway.call("GET", events).code() == "rate_limited"; }));
  open->close();
}

TEST(WorkOf, every_route_has_the_place_that_its_harm_says) {
  const auto work = [](std::string_view method, std::string_view pattern) {
    for (const Route& route : routes()) {
      if (route.method == method && route.pattern == pattern) {
        return work_of(route, {});
      }
    }
    ADD_FAILURE() << pattern;
    return Work::health;
  };
  EXPECT_EQ(work("GET", "/healthz"), Work::health);
  EXPECT_EQ(work("GET", "/readyz"), Work::health);
  EXPECT_EQ(work("GET", "/metrics"), Work::health);
  EXPECT_EQ(work("POST", "/sandboxes"), Work::heavy);
  EXPECT_EQ(work("POST", "/api/v1/sandboxes"), Work::heavy);
  EXPECT_EQ(work("POST", "/images"), Work::heavy);
  EXPECT_EQ(work("GET", "/sandboxes"), Work::other);
  EXPECT_EQ(work("GET", "/audit-logs"), Work::other);
  EXPECT_EQ(work("DELETE", "/sandboxes/{id}"), Work::inside);
  EXPECT_EQ(work("POST", "/sandboxes/{id}/run"), Work::inside);
  EXPECT_EQ(work("GET", "/sandboxes/{id}/terminal"), Work::inside);
}

}  // namespace
}  // namespace server
