#include "engine/local/local_engine.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>

#include "base/sys.h"
#include "engine/engine_contract_testing.h"
#include "net/listener.h"

namespace engine {
namespace {

using base::ErrorCode;
using net::Deadline;
using net::Task;
using wire::json::Object;

constexpr base::Milliseconds kPatience{10'000};

// A node whose answers the test writes.
class ScriptedNode {
 public:
  ScriptedNode(net::EventLoop& loop, std::string path) : loop_(loop), path_(std::move(path)) {
    listen();
  }
  void listen() {
    listener_ = std::make_unique<net::Listener>(loop_, *base::sys::listen_unix(path_, 0600, 8));
  }
  // Takes the next connection and answers hello and watch.
  Task<void> greet() {
    auto accepted = co_await listener_->accept();
    lines_ = std::make_unique<net::JsonLines>(loop_, std::move(*accepted));
    for (const char* const operation : {"hello", "watch"}) {
      const Object request = co_await next();
      EXPECT_EQ(request.at("op").as_string(), operation);
      answer(request, Object{{"node", "n1"}, {"version", "v"}, {"millicpus", 1000}});
    }
  }
  Task<Object> next() {
    auto line = co_await lines_->read(Deadline::after(kPatience));
    EXPECT_TRUE(line && *line);
    if (!line || !*line) {
      co_return Object{{"seq", 0}, {"op", ""}};
    }
    fds_ = std::move((*line)->fds);
    co_return (*line)->object;
  }
  void answer(const Object& request, Object ok) {
    EXPECT_TRUE(lines_->send(Object{{"seq", request.at("seq")}, {"ok", std::move(ok)}}));
  }
  void send(Object line) { EXPECT_TRUE(lines_->send(std::move(line))); }
  void send_bytes(std::string_view bytes) {
    EXPECT_TRUE(base::sys::write_all(lines_->fd(), bytes));
  }
  void hang_up() { lines_.reset(); }
  void stop_listening() {
    listener_.reset();
    ::unlink(path_.c_str());
  }
  std::vector<base::Fd>& fds() { return fds_; }

 private:
  net::EventLoop& loop_;
  std::string path_;
  std::unique_ptr<net::Listener> listener_;
  std::unique_ptr<net::JsonLines> lines_;
  std::vector<base::Fd> fds_;
};

struct Place {
  Place() {
    std::string pattern = testing::TempDir() + "local-XXXXXX";
    folder = ::mkdtemp(pattern.data());
  }
  ~Place() { std::filesystem::remove_all(folder); }
  std::string folder;
};

class LocalEngineTest : public testing::Test {
 protected:
  void run(Task<void> task) { run_task(loop_, std::move(task)); }
  Task<void> close() { co_await engine_.close(); }
  void TearDown() override { run(close()); }

  Place place_;
  base::Log log_{STDERR_FILENO, base::LogLevel::error};
  net::EventLoop loop_;
  ScriptedNode node_{loop_, place_.folder + "/node.sock"};
  LocalEngine engine_{
      loop_,
      {.node_socket = place_.folder + "/node.sock", .sandboxes_folder = place_.folder},
      log_};
  net::TaskGroup calls_{loop_};
};

Object status(std::string_view id, std::string_view state) {
  return Object{{"id", id}, {"state", state}, {"reason", ""}, {"message", ""}};
}

Task<void> get_into(LocalEngine& engine, std::string id, Result<Status>& out) {
  auto got = co_await engine.get(std::move(id));
  out = std::move(got);
}

Task<void> answers_out_of_order(LocalEngine& engine, ScriptedNode& node, net::TaskGroup& calls) {
  engine.start();
  co_await node.greet();
  Result<Status> a;
  Result<Status> b;
  calls.spawn(get_into(engine, "a", a));
  calls.spawn(get_into(engine, "b", b));
  const Object first = co_await node.next();
  const Object second = co_await node.next();
  EXPECT_NE(first.at("seq"), second.at("seq"));
  node.answer(second, status(std::string_view(second.at("id").as_string()), "failed"));
  node.answer(first, status(std::string_view(first.at("id").as_string()), "ready"));
  co_await calls.join();
  EXPECT_TRUE(a && a->id == "a" && a->state == State::ready);
  EXPECT_TRUE(b && b->id == "b" && b->state == State::failed);
  EXPECT_EQ(a->node, "n1");
}

TEST_F(LocalEngineTest, answers_are_matched_by_seq_whatever_their_order) {
  run(answers_out_of_order(engine_, node_, calls_));
}

Task<void> carries_errors(LocalEngine& engine, ScriptedNode& node, net::TaskGroup& calls) {
  engine.start();
  co_await node.greet();
  Result<Status> out;
  calls.spawn(get_into(engine, "a", out));
  const Object request = co_await node.next();
  node.send(Object{{"seq", request.at("seq")},
                   {"error", Object{{"code", "disk_full"},
                                    {"message", std::string(10'000, 'x')},
                                    {"details", Object{{"step", "mount"}, {"number", 3}}}}}});
  co_await calls.join();
  EXPECT_EQ(out.error().code, ErrorCode::disk_full);
  EXPECT_EQ(out.error().message.size(), 4096U);
  EXPECT_EQ(out.error().details.size(), 1U);
  calls.spawn(get_into(engine, "a", out));
  const Object again = co_await node.next();
  node.answer(again, Object{{"id", "../x"}, {"state", "ready"}});
  co_await calls.join();
  EXPECT_EQ(out.error().code, ErrorCode::malformed);
}

TEST_F(LocalEngineTest, errors_come_over_with_limits_and_statuses_are_checked) {
  run(carries_errors(engine_, node_, calls_));
}

Task<void> node_restarts(LocalEngine& engine, ScriptedNode& node, net::TaskGroup& calls) {
  engine.start();
  co_await node.greet();
  node.send(
      Object{{"event",
              Object{{"type", "pulling"}, {"message", ""}, {"status", status("a", "starting")}}}});
  Result<Status> under_way;
  calls.spawn(get_into(engine, "a", under_way));
  const Object lost = co_await node.next();
  EXPECT_EQ(lost.at("op").as_string(), "get");
  node.hang_up();
  co_await calls.join();
  EXPECT_EQ(under_way.error().code, ErrorCode::unavailable);
  const auto checked = co_await engine.check();
  EXPECT_FALSE(checked.has_value());
  // A call of meanwhile waits for the new connection.
  Result<Status> waiting;
  calls.spawn(get_into(engine, "a", waiting));
  co_await node.greet();
  const Object request = co_await node.next();
  node.answer(request, status("a", "ready"));
  co_await calls.join();
  EXPECT_TRUE(waiting.has_value());
  const auto before = co_await engine.next_change();
  EXPECT_TRUE(before && before->type == "pulling");
  const auto missed = co_await engine.next_change();
  EXPECT_EQ(missed.error().code, ErrorCode::unavailable);
  node.send(Object{{"event", Object{{"status", status("a", "failed")}}}});
  const auto after = co_await engine.next_change();
  EXPECT_TRUE(after && after->status.state == State::failed);
}

TEST_F(LocalEngineTest, a_node_that_restarts_fails_what_is_under_way_and_tells_of_missed_changes) {
  run(node_restarts(engine_, node_, calls_));
}

Task<void> node_speaks_nonsense(LocalEngine& engine, ScriptedNode& node) {
  engine.start();
  co_await node.greet();
  node.send_bytes("{nonsense\n");
  co_await node.greet();
  node.send(Object{{"event", Object{{"status", status("a", "flying")}}}});
  co_await node.greet();
  const auto checked = co_await engine.check();
  EXPECT_FALSE(checked.has_value());  // the answers to greet() are not read yet
}

TEST_F(LocalEngineTest, a_node_that_speaks_nonsense_is_connected_to_anew) {
  run(node_speaks_nonsense(engine_, node_));
}

Task<void> node_is_absent(LocalEngine& engine, ScriptedNode& node) {
  node.stop_listening();
  engine.start();
  const auto got = co_await engine.get("a");
  EXPECT_EQ(got.error().code, ErrorCode::unavailable);
  node.listen();
  co_await node.greet();
}

TEST_F(LocalEngineTest, without_a_node_calls_are_unavailable_and_it_is_found_when_it_comes) {
  run(node_is_absent(engine_, node_));
}

Task<void> import_into(LocalEngine& engine, base::Fd tar, Result<ImageInfo>& out) {
  auto imported = co_await engine.images().import("name", std::move(tar));
  out = std::move(imported);
}

Task<void> import_by_descriptor(LocalEngine& engine, ScriptedNode& node, net::TaskGroup& calls) {
  engine.start();
  co_await node.greet();
  Result<ImageInfo> out;
  calls.spawn(import_into(engine, *base::sys::make_sealed_memory("tar", "the bytes"), out));
  const Object request = co_await node.next();
  EXPECT_EQ(request.at("op").as_string(), "image_import");
  EXPECT_EQ(node.fds().size(), 1U);
  EXPECT_EQ(base::sys::read_all(node.fds().front().get(), 100).value_or(""), "the bytes");
  node.answer(request, Object{{"name", "name"}, {"size_bytes", 9}, {"config", Object{{"a", 1}}}});
  co_await calls.join();
  EXPECT_TRUE(out && out->size_bytes == 9 && out->config_json == R"({"a":1})");
}

TEST_F(LocalEngineTest, an_import_hands_the_file_itself_over) {
  run(import_by_descriptor(engine_, node_, calls_));
}

Task<void> create_into(LocalEngine& engine, model::SandboxSpec spec, Result<Status>& out) {
  auto created = co_await engine.create(std::move(spec));
  out = std::move(created);
}

Task<void> sends_spec(LocalEngine& engine, ScriptedNode& node, net::TaskGroup& calls) {
  engine.start();
  co_await node.greet();
  model::SandboxSpec spec;
  spec.id = "sbx-a";
  spec.containers.push_back({.image = "i", .environment = {{"A", "1"}}, .user = "u"});
  spec.resources = {.millicpus = 1, .memory_mb = 2, .storage_mb = 3, .pids = 4};
  spec.network = {.mode = model::NetworkMode::allow, .allow = {"a.b", "10.0.0.0/8"}};
  spec.registry.password = base::Secret("p");
  Result<Status> out;
  calls.spawn(create_into(engine, std::move(spec), out));
  const Object request = co_await node.next();
  const Object& sent = request.at("spec").as_object();
  EXPECT_EQ(
      wire::json::serialize(sent),
      R"({"id":"sbx-a","containers":[{"name":"main","image":"i","env":{"A":"1"},"user":"u"}],)"
      R"("resources":{"millicpus":1,"memory_mb":2,"storage_mb":3,"pids":4},)"
      R"("network":"allow a.b 10.0.0.0/8",)"
      R"("no_new_privileges":false,"always_pull":false,"registry":{"password":"p"}})");
  node.answer(request, status("sbx-a", "starting"));
  co_await calls.join();
  EXPECT_TRUE(out && out->state == State::starting);
}

TEST_F(LocalEngineTest, a_spec_is_sent_as_the_protocol_has_it) {
  run(sends_spec(engine_, node_, calls_));
}

// --- agents

class AgentPoolTest : public testing::Test {
 protected:
  void run(Task<void> task) { run_task(loop_, std::move(task)); }
  void listen(const std::string& id) {
    std::filesystem::create_directory(place_.folder + "/" + id);
    listeners_[id] = *base::sys::listen_unix(place_.folder + "/" + id + "/agent.sock", 0600, 64);
  }
  base::Fd accept(const std::string& id) {
    return base::Fd(::accept4(listeners_.at(id).get(), nullptr, nullptr, SOCK_CLOEXEC));
  }

  Place place_;
  net::EventLoop loop_;
  AgentPool pool_{loop_, place_.folder, base::Milliseconds(20)};
  std::unordered_map<std::string, base::Fd> listeners_;
};

Task<void> take_one(AgentPool& pool, std::string id, std::unique_ptr<AgentConnection>& out) {
  auto connection = co_await pool.connect(std::move(id));
  EXPECT_TRUE(connection.has_value());
  if (connection) {
    out = std::move(*connection);
  }
}

TEST_F(AgentPoolTest, a_channel_given_back_is_handed_out_again) {
  listen("a");
  std::unique_ptr<AgentConnection> first;
  run(take_one(pool_, "a", first));
  const auto* const same = first.get();
  pool_.give_back("a", std::move(first));
  EXPECT_EQ(pool_.idle(), 1U);
  std::unique_ptr<AgentConnection> second;
  run(take_one(pool_, "a", second));
  EXPECT_EQ(second.get(), same);
  EXPECT_EQ(pool_.idle(), 0U);
}

TEST_F(AgentPoolTest, a_channel_that_the_peer_closed_is_never_handed_out) {
  listen("a");
  std::unique_ptr<AgentConnection> first;
  run(take_one(pool_, "a", first));
  base::Fd peer = accept("a");
  pool_.give_back("a", std::move(first));
  peer.reset();
  std::unique_ptr<AgentConnection> second;
  run(take_one(pool_, "a", second));
  EXPECT_TRUE(accept("a").valid());  // a new one was made
  pool_.give_back("a", std::move(second));
}

TEST_F(AgentPoolTest, a_channel_with_bytes_nobody_asked_for_is_dropped) {
  listen("a");
  std::unique_ptr<AgentConnection> first;
  run(take_one(pool_, "a", first));
  base::Fd peer = accept("a");
  ASSERT_TRUE(base::sys::write_all(peer.get(), "HTTP/1.1 200 OK\r\n\r\n"));
  pool_.give_back("a", std::move(first));
  std::unique_ptr<AgentConnection> second;
  run(take_one(pool_, "a", second));
  EXPECT_TRUE(accept("a").valid());  // a new one was made
  EXPECT_EQ(pool_.idle(), 0U);
  pool_.give_back("a", std::move(second));
}

TEST_F(AgentPoolTest, idle_channels_are_bounded_and_forgotten_with_their_sandbox) {
  listen("a");
  listen("b");
  std::vector<std::unique_ptr<AgentConnection>> taken(AgentPool::kIdlePerSandboxMax + 3);
  for (auto& one : taken) {
    run(take_one(pool_, "a", one));
  }
  for (auto& one : taken) {
    pool_.give_back("a", std::move(one));
  }
  EXPECT_EQ(pool_.idle(), AgentPool::kIdlePerSandboxMax);
  std::unique_ptr<AgentConnection> other;
  run(take_one(pool_, "b", other));
  pool_.give_back("b", std::move(other));
  pool_.forget("a");
  EXPECT_EQ(pool_.idle(), 1U);
}

Task<void> wait_until_empty(net::EventLoop& loop, AgentPool& pool) {
  while (pool.idle() > 0) {
    co_await loop.sleep_until(Deadline::after(base::Milliseconds(1)));
  }
}

TEST_F(AgentPoolTest, idle_channels_are_closed_in_time) {
  listen("a");
  std::unique_ptr<AgentConnection> one;
  run(take_one(pool_, "a", one));
  pool_.give_back("a", std::move(one));
  net::TaskGroup sweeping(loop_);
  sweeping.spawn(pool_.run());
  run(wait_until_empty(loop_, pool_));
  sweeping.cancel();
  while (sweeping.size() > 0) {
    loop_.run_once(base::Milliseconds(10));
  }
}

Task<void> expect_not_found(AgentPool& pool, std::string id) {
  const auto connection = co_await pool.connect(id);
  EXPECT_FALSE(connection.has_value());
  EXPECT_EQ(connection.error().code, ErrorCode::not_found);
}

TEST_F(AgentPoolTest, ids_that_could_leave_the_folder_are_not_found) {
  listen("a");
  for (const char* const id : {"../a", "a/../a", ".", "", "A", "a b", "absent"}) {
    run(expect_not_found(pool_, id));
  }
}

}  // namespace
}  // namespace engine
