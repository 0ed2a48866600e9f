// A whole gateway in one process for tests: the real service and server over the fake engine, a
// store in a temporary file and a clock that the test moves. Requests go over socket pairs.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "engine/fake/fake_engine_testing.h"
#include "server/server.h"
#include "service/bootstrap.h"
#include "service/credentials.h"

namespace server {

struct Reply {
  int status = 0;
  std::vector<wire::http::Header> headers;
  std::string body;

  [[nodiscard]] std::string header(std::string_view name) const;
  [[nodiscard]] wire::json::Object json() const;
  // {"error":{"code"}}, or "".
  [[nodiscard]] std::string code() const;
  [[nodiscard]] std::string field() const;  // details.field
};

// What outlives a gateway: its state folder, its engine and the clock.
struct Ground {
  Ground();
  ~Ground();

  net::EventLoop loop;
  base::FakeClock clock;
  base::KernelRandom random;
  base::Log log{-1};
  std::string folder;
  engine::FakeEngine engine{loop};
};

class TestGateway {
 public:
  // `replica`: its name among several on the store; empty: it is alone.
  explicit TestGateway(Ground& ground, service::LifecycleOptions options = {},
                       const std::string& replica = "");
  // Stops in order.
  ~TestGateway();

  // One request on a connection of its own, with the admin's token.
  Reply call(const std::string& method, const std::string& target, const std::string& body = "",
             const std::string& headers = "");
  // The same with exactly these bytes; the answers to `method` requests are read one by one.
  Reply call_raw(const std::string& bytes, const std::string& method = "GET");
  // The client's end of a new connection.
  std::unique_ptr<net::Stream> connect();
  [[nodiscard]] std::string head(const std::string& method, const std::string& target,
                                 size_t length, const std::string& headers = "") const;
  // Turns the loop until it holds; false after a long time.
  bool eventually(const std::function<bool()>& condition);
  void run(net::Task<void> task);
  // A ready sandbox; its id.
  std::string make_ready(const std::string& extra = "");
  std::string state(const std::string& id);

  Ground& ground;
  service::StoreClock store_clock;
  std::unique_ptr<store::Store> store;
  service::Teams teams;
  service::SecretBox secrets;
  net::BlockingPool pool;
  net::BlockingPool coders;
  service::Journal journal;
  service::Audit audit;
  service::LiveSandboxes live;
  service::Telemetry telemetry;
  service::Replicas replicas;
  service::Context context;
  service::Access access;
  service::Registries registries;
  service::TeamChanges team_changes;
  service::Tokens tokens;
  service::Lifecycle lifecycle;
  service::Sandboxes sandboxes;
  service::Commands commands;
  service::Tickets tickets;
  service::CredentialSettings credential_settings{.audiences = {"outside.example"}};
  oidc::CurlHttp outside{""};
  service::IdentityKeys identity_keys;
  service::SandboxIdentity identity;
  service::TokenExchange token_exchange;
  service::Credentials credentials;
  service::UsageHistory usage;
  service::Images images;
  service::Builds builds;
  service::DefaultSandbox default_sandbox{.image = "demo:latest", .memory_mb = 64};
  service::Limiter limiter;
  service::TokenLimitTable token_limits;
  Overload overload;
  Metrics metrics;
  Application application;
  Server api;
  std::string token;
  net::TaskGroup journal_group;
};

}  // namespace server
