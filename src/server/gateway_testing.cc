#include "server/gateway_testing.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include "base/sys.h"
#include "wire/json.h"

namespace server {
namespace {

using namespace std::chrono_literals;

constexpr base::Milliseconds kPatience{10'000};

Task<void> read_reply(net::HttpReader& reader, std::string method, Reply& reply) {
  const auto response = co_await reader.read_response(method, net::Deadline::after(kPatience));
  if (!response) {
    co_return;
  }
  reply.status = response->status;
  reply.headers = response->headers;
  auto body = co_await reader.read_whole_body(size_t{256} * 1024 * 1024, kPatience);
  reply.body = body ? std::move(*body) : "(the body ended early)";
}

Task<void> exchange(net::Stream& stream, std::string bytes, std::string method, Reply& reply) {
  net::TaskGroup group(stream.loop());
  net::HttpReader reader(stream);
  // Beside each other: a server that answers early must not meet a client that only writes.
  group.spawn(read_reply(reader, std::move(method), reply));
  co_await stream.write_all(bytes, kPatience);
  co_await group.join();
}

Task<void> prepare(TestGateway& gateway) {
  EXPECT_TRUE(
      (co_await gateway.audit.open_spool(gateway.ground.folder + "/audit.spool")).has_value());
  EXPECT_TRUE((co_await gateway.replicas.join()).has_value());
  EXPECT_TRUE((co_await gateway.access.load()).has_value());
  EXPECT_TRUE((co_await gateway.registries.load()).has_value());
  EXPECT_TRUE((co_await gateway.identity_keys.load()).has_value());
  gateway.access.use(&gateway.identity);
  EXPECT_TRUE((co_await gateway.lifecycle.load()).has_value());
  gateway.lifecycle.start();
}

Task<void> shut_down(TestGateway& gateway) {
  co_await gateway.api.stop(net::Deadline::after(0ms));
  co_await gateway.lifecycle.stop();
  gateway.journal.stop();
  gateway.audit.stop();
  co_await gateway.journal_group.join();
}

}  // namespace

std::string Reply::header(std::string_view name) const {
  for (const auto& header : headers) {
    if (header.name == name) {
      return header.value;
    }
  }
  return "";
}

wire::json::Object Reply::json() const {
  auto object = wire::json::parse_object(body);
  return object ? std::move(*object) : wire::json::Object{};
}

std::string Reply::code() const {
  const auto object = json();
  const auto* error = object.if_contains("error");
  return error == nullptr ? "" : std::string(error->at("code").as_string());
}

std::string Reply::field() const {
  const auto object = json();
  const auto* error = object.if_contains("error");
  const auto* name =
      error == nullptr ? nullptr : error->at("details").as_object().if_contains("field");
  return name == nullptr ? "" : std::string(name->as_string());
}

Ground::Ground() {
  std::string name = std::filesystem::temp_directory_path() / "gateway-test-XXXXXX";
  folder = ::mkdtemp(name.data());
}

Ground::~Ground() {
  net::TaskGroup group(loop);
  group.spawn(engine.close());
  while (group.size() > 0) {
    loop.run_once(10ms);
  }
  std::filesystem::remove_all(folder);
}

TestGateway::TestGateway(Ground& on, service::LifecycleOptions options, const std::string& replica)
    : ground(on),
      store_clock(on.clock),
      store(*store::Store::open(on.folder + "/gateway.db")),
      teams(*service::Teams::load(*store)),
      secrets(base::Secret(std::string(service::kMasterKeyBytes, 'k')), on.random),
      pool(on.loop, 1),
      coders(on.loop, 1),
      journal(on.loop, pool, *store, on.log),
      audit(on.loop, on.clock, pool, *store, on.log),
      live(on.loop),
      replicas(on.loop, on.clock, store_clock, pool, *store, on.log,
               {.id = replica, .address = "", .shared = !replica.empty()}),
      context{.loop = on.loop,
              .clock = on.clock,
              .store_clock = store_clock,
              .random = on.random,
              .log = on.log,
              .store = *store,
              .pool = pool,
              .engine = on.engine,
              .journal = journal,
              .audit = audit,
              .secrets = secrets,
              .teams = teams,
              .live = live,
              .telemetry = telemetry,
              .replicas = replicas},
      access(context),
      registries(context),
      team_changes(context, access, registries),
      tokens(context, access),
      lifecycle(context, registries, options),
      sandboxes(context, lifecycle),
      commands(context),
      tickets(context),
      identity_keys(context, {.rotation_ms = 86'400'000, .lifetime_ms = 3'600'000}),
      identity(context, identity_keys,
               {.issuer = "https://us.example", .audiences = credential_settings.audiences}),
      token_exchange(context, identity, credential_settings, outside),
      credentials(context, token_exchange, identity, credential_settings),
      usage(context),
      images(context, registries, on.folder),
      builds(context, registries, on.folder, {}),
      limiter(on.clock, {}),
      token_limits(context, limiter),
      overload(on.loop),
      metrics(routes().size()),
      application{.loop = on.loop,
                  .log = on.log,
                  .random = on.random,
                  .access = access,
                  .teams = teams,
                  .team_changes = team_changes,
                  .tokens = tokens,
                  .sandboxes = sandboxes,
                  .commands = commands,
                  .tickets = tickets,
                  .identity = identity,
                  .exchange = token_exchange,
                  .usage = usage,
                  .images = images,
                  .builds = builds,
                  .audit = audit,
                  .limiter = limiter,
                  .token_limits = token_limits,
                  .replicas = replicas,
                  .overload = overload,
                  .live = live,
                  .telemetry = telemetry,
                  .pool = pool,
                  .engine = on.engine,
                  .default_sandbox = default_sandbox,
                  .metrics = metrics,
                  .coders = {.pool = coders}},
      api(application, Surface::all),
      journal_group(on.loop) {
  const std::string file = on.folder + "/admin.token";
  EXPECT_TRUE(service::make_admin_token(*store, file, on.random, on.clock).has_value());
  token = std::string(base::trim(*base::sys::read_file(file, 1000)));
  while (!token.empty() && token.back() == '\n') {
    token.pop_back();
  }
  journal_group.spawn(journal.run());
  journal_group.spawn(audit.run());
  run(prepare(*this));
  eventually([this] { return lifecycle.capacity().has_value(); });
}

TestGateway::~TestGateway() { run(shut_down(*this)); }

void TestGateway::run(net::Task<void> task) {
  net::TaskGroup group(ground.loop);
  group.spawn(std::move(task));
  while (group.size() > 0) {
    ground.loop.run_once(100ms);
  }
}

bool TestGateway::eventually(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) {
      return false;
    }
    ground.loop.run_once(5ms);
  }
  return true;
}

std::unique_ptr<net::Stream> TestGateway::connect() {
  auto ends = *base::sys::make_socket_pair(SOCK_STREAM | SOCK_NONBLOCK);
  api.adopt(std::move(ends.first), "");
  return std::make_unique<net::Stream>(ground.loop, std::move(ends.second));
}

std::string TestGateway::head(const std::string& method, const std::string& target, size_t length,
                              const std::string& headers) const {
  return base::cat(method, " ", target, " HTTP/1.1\r\nhost: test\r\nauthorization: Bearer ", token,
                   "\r\ncontent-length: ", length, "\r\n", headers, "\r\n");
}

Reply TestGateway::call_raw(const std::string& bytes, const std::string& method) {
  const auto stream = connect();
  Reply reply;
  run(exchange(*stream, bytes, method, reply));
  return reply;
}

Reply TestGateway::call(const std::string& method, const std::string& target,
                        const std::string& body, const std::string& headers) {
  return call_raw(head(method, target, body.size(), headers) + body, method);
}

std::string TestGateway::make_ready(const std::string& extra) {
  const Reply reply =
      call("POST", "/sandboxes?wait=10",
           base::cat(R"({"image":"demo:latest","cpus":1,"memory_mb":64)", extra, "}"));
  EXPECT_EQ(reply.status, 201) << reply.body;
  const auto row = reply.json();
  EXPECT_EQ(row.at("state").as_string(), "ready") << reply.body;
  return std::string(row.at("id").as_string());
}

std::string TestGateway::state(const std::string& id) {
  const Reply reply = call("GET", "/sandboxes/" + id + "?all=true");
  const auto row = reply.json();
  const auto* found = row.if_contains("state");
  return found == nullptr ? base::cat("(", reply.status, ")") : std::string(found->as_string());
}

}  // namespace server
