#include <gtest/gtest.h>

#include "server/gateway_testing.h"
#include "service/retention.h"

namespace server {
namespace {

using namespace std::chrono_literals;

struct SandboxRoutes : ::testing::Test {
  Ground ground;
  TestGateway gateway{ground};
};

TEST_F(SandboxRoutes, create_answers_with_the_sandbox_and_its_location) {
  const Reply reply = gateway.call("POST", "/sandboxes?wait=10",
                                   R"({"image":"demo:latest","cpus":0.5,"memory_mb":64,)"
                                   R"("labels":{"a":"b"},"env":{"K":"secret"}})");
  ASSERT_EQ(reply.status, 201) << reply.body;
  const auto row = reply.json();
  EXPECT_EQ(row.at("state").as_string(), "ready");
  EXPECT_EQ(row.at("cpus").as_double(), 0.5);
  EXPECT_EQ(row.at("storage_mb").as_int64(), 1024);
  EXPECT_EQ(row.at("owner").as_string(), "admin");
  EXPECT_EQ(row.at("labels").at("a").as_string(), "b");
  EXPECT_EQ(reply.header("location"), "/sandboxes/" + std::string(row.at("id").as_string()));
  EXPECT_FALSE(reply.header("x-request-id").empty());
  EXPECT_EQ(reply.body.find("secret"), std::string::npos);
  const auto* spec = ground.engine.spec(std::string(row.at("id").as_string()));
  ASSERT_NE(spec, nullptr);
  EXPECT_EQ(spec->containers.front().environment.at("K"), "secret");
}

TEST_F(SandboxRoutes, a_missing_or_bad_token_is_unauthenticated) {
  EXPECT_EQ(gateway.call_raw("GET /sandboxes HTTP/1.1\r\nhost: x\r\n\r\n").code(),
            "unauthenticated");
  const Reply bad =
      gateway.call_raw("GET /sandboxes HTTP/1.1\r\nhost: x\r\nauthorization: Bearer no\r\n\r\n");
  EXPECT_EQ(bad.status, 401);
  EXPECT_EQ(bad.header("www-authenticate"), "Bearer");
  EXPECT_EQ(gateway.call_raw("GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").status, 200);
}

struct BadInput {
  std::string body;
  int status;
  std::string code;
  std::string field;
};

TEST_F(SandboxRoutes, bad_input_names_its_field_and_leaves_nothing) {
  const std::string fine = R"("image":"demo:latest","cpus":1,"memory_mb":64)";
  const std::vector<BadInput> inputs{
      {"{", 400, "malformed", ""},
      {"[]", 400, "malformed", ""},
      {"{" + fine + R"(,"colour":1})", 422, "unknown_field", "colour"},
      {R"({"cpus":1,"memory_mb":64})", 422, "missing_field", "image"},
      {R"({"image":"demo:latest","memory_mb":64})", 422, "missing_field", "cpus"},
      {R"({"image":"demo:latest","cpus":1})", 422, "missing_field", "memory_mb"},
      {R"({"image":"","cpus":1,"memory_mb":64})", 422, "invalid_field", "image"},
      {R"({"image":"demo:latest","cpus":0,"memory_mb":64})", 422, "invalid_field", "cpus"},
      {R"({"image":"demo:latest","cpus":-1,"memory_mb":64})", 422, "invalid_field", "cpus"},
      {R"({"image":"demo:latest","cpus":0.0101,"memory_mb":64})", 422, "invalid_field", "cpus"},
      {R"({"image":"demo:latest","cpus":1e300,"memory_mb":64})", 422, "quota_never", "cpus"},
      {R"({"image":"demo:latest","cpus":"1","memory_mb":64})", 422, "invalid_field", "cpus"},
      {R"({"image":"demo:latest","cpus":1,"memory_mb":0})", 422, "invalid_field", "memory_mb"},
      {R"({"image":"demo:latest","cpus":1,"memory_mb":9000000000})", 422, "quota_never",
       "memory_mb"},
      {"{" + fine + R"(,"storage_mb":-5})", 422, "invalid_field", "storage_mb"},
      {"{" + fine + R"(,"storage_mb":9000000000000000000})", 422, "quota_never", "storage_mb"},
      {"{" + fine + R"(,"env":{"A=B":"x"}})", 422, "invalid_field", "env"},
      {"{" + fine + R"(,"env":{"A":"\u0000"}})", 422, "invalid_field", "env"},
      {"{" + fine + R"(,"labels":{"":"x"}})", 422, "invalid_field", "labels"},
      {"{" + fine + R"(,"lease_sec":0})", 422, "invalid_field", "lease_sec"},
      {"{" + fine + R"(,"lease_sec":1801})", 422, "invalid_field", "lease_sec"},
      {"{" + fine + R"(,"isolation":"vm"})", 422, "not_supported", "isolation"},
      {"{" + fine + R"(,"network":{"mode":"allow","allow":["x:1"]}})", 422, "invalid_field",
       "network.allow"},
      {"{" + fine + R"(,"network":{"mode":"off"}})", 422, "invalid_field", "network.mode"},
      {"{" + fine + R"(,"network":{"mode":"none","x":1}})", 422, "unknown_field", "network.x"},
      {"{" + fine + R"(,"compose":{}})", 422, "missing_field", "compose.files"},
      {"{" + fine + R"(,"run_entrypoint":true})", 422, "invalid_field", "run_entrypoint"},
      {"{" + fine + R"(,"workdir":"tmp"})", 422, "invalid_field", "workdir"},
      {R"({"image":"tar:/x","cpus":1,"memory_mb":64})", 403, "image_not_allowed", ""},
  };
  for (const BadInput& input : inputs) {
    const Reply reply = gateway.call("POST", "/sandboxes", input.body);
    EXPECT_EQ(reply.status, input.status) << input.body << " " << reply.body;
    EXPECT_EQ(reply.code(), input.code) << input.body;
    EXPECT_EQ(reply.field(), input.field) << input.body;
  }
  EXPECT_EQ(ground.engine.size(), 0U);
  EXPECT_TRUE(gateway.call("GET", "/sandboxes?all=true").json().at("items").as_array().empty());
}

TEST_F(SandboxRoutes, a_body_that_is_too_large_is_refused) {
  const std::string body(size_t{500} * 1024, ' ');
  const Reply reply = gateway.call("POST", "/sandboxes", body);
  EXPECT_EQ(reply.status, 413);
  EXPECT_EQ(reply.code(), "body_too_large");
}

TEST_F(SandboxRoutes, an_idempotency_key_gives_the_same_sandbox) {
  const std::string body = R"({"image":"demo:latest","cpus":1,"memory_mb":64})";
  const Reply first = gateway.call("POST", "/sandboxes?wait=5", body, "idempotency-key: k\r\n");
  const Reply second = gateway.call("POST", "/sandboxes?wait=5", body, "idempotency-key: k\r\n");
  EXPECT_EQ(first.status, 201);
  EXPECT_EQ(second.status, 200);
  EXPECT_EQ(first.json().at("id"), second.json().at("id"));
  const Reply other = gateway.call("POST", "/sandboxes", body + " ", "idempotency-key: k\r\n");
  EXPECT_EQ(other.status, 409);
  EXPECT_EQ(other.code(), "idempotency_conflict");
  const std::string id(first.json().at("id").as_string());
  EXPECT_EQ(gateway.call("DELETE", "/sandboxes/" + id + "?wait=5").status, 204);
  const Reply third = gateway.call("POST", "/sandboxes?wait=5", body, "idempotency-key: k\r\n");
  EXPECT_EQ(third.status, 200);
  EXPECT_EQ(third.json().at("state").as_string(), "deleted");
}

TEST_F(SandboxRoutes, delete_works_in_every_state_and_once) {
  ground.engine.fail_next_create(base::Error{.code = base::ErrorCode::internal,
                                             .message = "no",
                                             .details = {{"reason", "image_not_found"}}});
  const Reply failed = gateway.call("POST", "/sandboxes?wait=5",
                                    R"({"image":"demo:latest","cpus":1,"memory_mb":64})");
  EXPECT_EQ(failed.json().at("state").as_string(), "failed");
  EXPECT_EQ(failed.json().at("reason").as_string(), "image_not_found");
  const Reply starting =
      gateway.call("POST", "/sandboxes", R"({"image":"slow:1","cpus":1,"memory_mb":64})");
  EXPECT_EQ(starting.json().at("state").as_string(), "starting");
  for (const std::string& id :
       {std::string(failed.json().at("id").as_string()),
        std::string(starting.json().at("id").as_string()), gateway.make_ready()}) {
    EXPECT_EQ(gateway.call("DELETE", "/sandboxes/" + id + "?wait=5").status, 204);
    EXPECT_EQ(gateway.call("DELETE", "/sandboxes/" + id).status, 404);
    EXPECT_EQ(gateway.call("GET", "/sandboxes/" + id).code(), "not_found");
    EXPECT_EQ(gateway.state(id), "deleted");
    EXPECT_EQ(gateway.call("GET", "/sandboxes/" + id + "/events").status, 200);
  }
  EXPECT_EQ(ground.engine.size(), 0U);
}

TEST_F(SandboxRoutes, list_filters_and_pages_newest_first) {
  const std::string first = gateway.make_ready(R"(,"labels":{"n":"1"})");
  ground.clock.advance(1ms);
  const std::string second = gateway.make_ready(R"(,"labels":{"n":"2"})");
  const Reply page = gateway.call("GET", "/sandboxes?limit=1");
  EXPECT_EQ(page.json().at("items").at(0).at("id").as_string(), second);
  const std::string cursor(page.json().at("next_cursor").as_string());
  const Reply rest = gateway.call("GET", "/sandboxes?limit=1&cursor=" + cursor);
  EXPECT_EQ(rest.json().at("items").at(0).at("id").as_string(), first);
  const Reply label = gateway.call("GET", "/sandboxes?label=n%3D1");
  ASSERT_EQ(label.json().at("items").as_array().size(), 1U);
  EXPECT_EQ(label.json().at("items").at(0).at("id").as_string(), first);
  EXPECT_EQ(gateway.call("GET", "/sandboxes?state=nonsense").field(), "state");
  EXPECT_EQ(gateway.call("GET", "/sandboxes?limit=0").field(), "limit");
  EXPECT_EQ(gateway.call("GET", "/sandboxes?colour=red").code(), "unknown_field");
}

TEST_F(SandboxRoutes, the_lease_ends_a_sandbox_and_a_run_renews_it) {
  const std::string id = gateway.make_ready(R"(,"lease_sec":60)");
  ground.clock.advance(50s);
  EXPECT_EQ(gateway.call("POST", "/sandboxes/" + id + "/run", R"({"argv":["true"]})").status, 200);
  ground.clock.advance(50s);
  gateway.lifecycle.leases().check_due();
  EXPECT_EQ(gateway.state(id), "ready");
  gateway.call("GET", "/sandboxes/" + id + "/activity");
  ground.clock.advance(11s);
  gateway.lifecycle.leases().check_due();
  EXPECT_TRUE(gateway.eventually([&] { return !gateway.live.find(id); }));
  const Reply gone = gateway.call("GET", "/sandboxes/" + id + "?all=true");
  EXPECT_EQ(gone.json().at("reason").as_string(), "lease_expired");
}

TEST_F(SandboxRoutes, the_maximum_lifetime_ends_a_used_sandbox) {
  const std::string id = gateway.make_ready(R"(,"max_lifetime_sec":100)");
  ground.clock.advance(99s);
  gateway.lifecycle.leases().check_due();
  EXPECT_EQ(gateway.state(id), "ready");
  ground.clock.advance(2s);
  gateway.lifecycle.leases().check_due();
  EXPECT_TRUE(gateway.eventually([&] { return !gateway.live.find(id); }));
}

TEST_F(SandboxRoutes, a_start_that_takes_too_long_fails) {
  const Reply reply =
      gateway.call("POST", "/sandboxes", R"({"image":"slow:1","cpus":1,"memory_mb":64})");
  const std::string id(reply.json().at("id").as_string());
  ground.clock.advance(1801s);
  gateway.lifecycle.leases().check_due();
  const Reply late = gateway.call("GET", "/sandboxes/" + id + "?wait=5");
  EXPECT_EQ(late.json().at("state").as_string(), "failed");
  EXPECT_EQ(late.json().at("reason").as_string(), "start_timeout");
  EXPECT_TRUE(gateway.eventually([&] { return ground.engine.size() == 0; }));
}

TEST_F(SandboxRoutes, patch_changes_labels_lease_and_network) {
  const std::string id = gateway.make_ready();
  const Reply reply =
      gateway.call("PATCH", "/sandboxes/" + id,
                   R"({"labels":{"x":"y"},"lease_sec":5,"network":{"mode":"none"}})");
  ASSERT_EQ(reply.status, 200) << reply.body;
  EXPECT_EQ(reply.json().at("labels").at("x").as_string(), "y");
  EXPECT_EQ(reply.json().at("network").at("mode").as_string(), "none");
  ground.clock.advance(6s);
  gateway.lifecycle.leases().check_due();
  EXPECT_TRUE(gateway.eventually([&] { return !gateway.live.find(id); }));
}

TEST_F(SandboxRoutes, archived_sandboxes_are_forgotten_when_their_time_is_over) {
  const std::string gone = gateway.make_ready();
  const std::string kept = gateway.make_ready();
  EXPECT_EQ(gateway.call("DELETE", "/sandboxes/" + gone + "?wait=10").status, 204);
  service::Retention retention(gateway.context, 30, 0);
  service::Retention for_ever(gateway.context, 0, 0);
  const auto forget = [&](service::Retention& by) {
    int64_t count = -1;
    gateway.run([](service::Retention& one, int64_t& out) -> Task<void> {
      out = co_await one.forget_due();
    }(by, count));
    return count;
  };
  ground.clock.advance(24h * 29);
  EXPECT_EQ(forget(retention), 0);
  ground.clock.advance(24h * 2);
  EXPECT_EQ(forget(for_ever), 0);
  EXPECT_EQ(gateway.call("GET", "/sandboxes/" + gone + "?all=true").status, 200);
  EXPECT_EQ(forget(retention), 1);
  EXPECT_EQ(gateway.call("GET", "/sandboxes/" + gone + "?all=true").status, 404);
  EXPECT_EQ(gateway.state(kept), "ready");
}

TEST_F(SandboxRoutes, a_death_is_failed_with_its_reason) {
  const std::string id = gateway.make_ready();
  ground.engine.die(id, "out_of_memory", "killed");
  EXPECT_TRUE(gateway.eventually(
      [&] { return gateway.live.find(id)->row.state == service::SandboxState::failed; }));
  const Reply reply = gateway.call("POST", "/sandboxes/" + id + "/run", R"({"argv":["true"]})");
  EXPECT_EQ(reply.status, 409);
  EXPECT_EQ(reply.code(), "not_ready");
}

TEST(Restart, keeps_what_was_acknowledged) {
  Ground ground;
  std::string kept;
  std::string slow;
  {
    TestGateway gateway(ground);
    kept = gateway.make_ready(R"(,"env":{"K":"v"})");
    slow = std::string(
        gateway.call("POST", "/sandboxes", R"({"image":"slow:1","cpus":1,"memory_mb":64})")
            .json()
            .at("id")
            .as_string());
  }
  ground.engine.finish_start(slow);
  {
    TestGateway gateway(ground);
    EXPECT_EQ(gateway.state(kept), "ready");
    EXPECT_TRUE(gateway.eventually([&] { return gateway.state(slow) == "ready"; }));
    EXPECT_EQ(gateway.call("POST", "/sandboxes/" + kept + "/run", R"({"argv":["true"]})").status,
              200);
  }
  ground.engine.forget_all();
  TestGateway gateway(ground, {.host_restarted = true});
  EXPECT_TRUE(gateway.eventually([&] { return gateway.state(kept) == "failed"; }));
  const Reply row = gateway.call("GET", "/sandboxes/" + kept);
  EXPECT_EQ(row.json().at("reason").as_string(), "host_restarted");
}

TEST(Restart, removes_what_the_store_does_not_know) {
  Ground ground;
  {
    TestGateway gateway(ground);
    gateway.make_ready();
  }
  std::filesystem::remove_all(ground.folder);
  std::filesystem::create_directory(ground.folder);
  TestGateway gateway(ground);
  EXPECT_TRUE(gateway.eventually([&] { return ground.engine.size() == 0; }));
}

}  // namespace
}  // namespace server
