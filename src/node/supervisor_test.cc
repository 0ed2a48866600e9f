// The node as a whole against the real kernel: a forked copy of the test runs it, the test speaks
// api/node-protocol.md with it, kills it at every fault point and starts it again. A tiny program
// that only waits stands in for the agent. Needs root and sandbox-image beside the test.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "base/sys.h"
#include "node/cgroups.h"
#include "node/fault_points.h"
#include "node/image_firewall.h"
#include "node/network.h"
#include "node/node.h"
#include "node/program.h"
#include "node/record.h"
#include "node/spec_json.h"
#include "node/storage.h"
#include "wire/json.h"

namespace node {
namespace {

using wire::json::Object;

constexpr size_t kLineBytesMax = size_t{1} << 20;
constexpr int kTries = 2'000;
constexpr useconds_t kPauseMicroseconds = 10'000;

// An ELF program whose only code is `pause()` for ever.
constexpr std::array<unsigned char, 131> kWaitingProgram{
    0x7f, 'E',  'L',  'F', 2,  1,    1,    0,    0,    0, 0,
    0,    0,    0,    0,   0,  // identification
    2,    0,    62,   0,   1,  0,    0,    0,    0x78, 0, 0x40,
    0,    0,    0,    0,   0,  // x86-64, entry
    64,   0,    0,    0,   0,  0,    0,    0,    0,    0, 0,
    0,    0,    0,    0,   0,  // program headers
    0,    0,    0,    0,   64, 0,    56,   0,    1,    0, 0,
    0,    0,    0,    0,   0,  // one of them
    1,    0,    0,    0,   5,  0,    0,    0,    0,    0, 0,
    0,    0,    0,    0,   0,  // load, read + execute
    0,    0,    0x40, 0,   0,  0,    0,    0,    0,    0, 0x40,
    0,    0,    0,    0,   0,  // at 0x400000
    131,  0,    0,    0,   0,  0,    0,    0,    131,  0, 0,
    0,    0,    0,    0,   0,                                  // its size
    0,    0x10, 0,    0,   0,  0,    0,    0,                  // alignment
    0xb8, 34,   0,    0,   0,  0x0f, 0x05, 0xeb, 0xf7, 0, 0};  // pause; again

template <typename Condition>
bool eventually(Condition condition) {
  for (int i = 0; i < kTries; ++i) {
    if (condition()) {
      return true;
    }
    ::usleep(kPauseMicroseconds);
  }
  return false;
}

class Client {
 public:
  explicit Client(base::Fd socket) : socket_(std::move(socket)) {}

  // The answer, or nothing when the node has gone. Events are put aside.
  std::optional<Object> call(Object request) {
    request["seq"] = ++last_;
    const std::string line = wire::json::serialize(request) + "\n";
    if (::send(socket_.get(), line.data(), line.size(), MSG_NOSIGNAL) < 0) {
      return std::nullopt;
    }
    for (;;) {
      auto object = next();
      if (!object || !object->contains("event")) {
        return object;
      }
      events.push_back(object->at("event").as_object());
    }
  }
  std::optional<Object> next() {
    for (;;) {
      if (const size_t end = buffer_.find('\n'); end != std::string::npos) {
        auto object = wire::json::parse_object(buffer_.substr(0, end));
        buffer_.erase(0, end + 1);
        return object ? std::optional(std::move(*object)) : std::nullopt;
      }
      std::array<char, 4096> bytes{};
      const ssize_t count = ::read(socket_.get(), bytes.data(), bytes.size());
      if (count <= 0 || buffer_.size() > kLineBytesMax) {
        return std::nullopt;
      }
      buffer_.append(bytes.data(), static_cast<size_t>(count));
    }
  }
  std::vector<Object> events;

 private:
  base::Fd socket_;
  std::string buffer_;
  int64_t last_ = 0;
};

std::string text_at(const std::optional<Object>& answer, std::string_view outer,
                    std::string_view inner) {
  if (!answer || !answer->contains(outer)) {
    return answer ? wire::json::serialize(*answer) : "no answer";
  }
  const auto* const value = answer->at(outer).as_object().if_contains(inner);
  return value != nullptr && value->is_string() ? std::string(value->get_string()) : "absent";
}

class NodeTest : public testing::Test {
 protected:
  void SetUp() override {
    if (::getuid() != 0) {
      GTEST_SKIP() << "needs root";
    }
    char name[] = "/tmp/node-test-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    folder_ = name;
    std::filesystem::create_directories(folder_ + "/image/etc");
    std::ofstream(folder_ + "/image/etc/passwd") << "root:x:0:0::/:/bin/sh\n";
    std::ofstream agent(folder_ + "/agent", std::ios::binary);
    agent.write(reinterpret_cast<const char*>(kWaitingProgram.data()), kWaitingProgram.size());
    agent.close();
  }
  void TearDown() override {
    if (folder_.empty()) {
      return;
    }
    stop_node(SIGTERM);
    close_drivers();
    EXPECT_EQ(::umount((folder_ + "/run/sandboxes").c_str()), 0);
    EXPECT_TRUE(base::sys::remove_tree(folder_));
  }

  [[nodiscard]] NodeOptions options() const {
    const std::string program = std::filesystem::read_symlink("/proc/self/exe");
    return {.run_folder = folder_ + "/run",
            .lib_folder = folder_ + "/lib",
            .gateway_gid = 64'100,
            .shells = shells_,
            .agent = folder_ + "/agent",
            .image_helper = program.substr(0, program.rfind('/')) + "/sandbox-image",
            .storage_pool_mb = 256,
            .storage_driver = "tmpfs",
            .name_prefix = kPrefix,
            .subnet = "10.213.0.0/16",
            .id_base = 1'500'000'000};
  }
  void close_drivers() {
    if (const auto network = Network::open({.prefix = kPrefix, .subnet = "10.213.0.0/16"})) {
      EXPECT_TRUE((*network)->close());
    }
    EXPECT_TRUE(forget_helper(kPrefix));
    if (const auto cgroups = Cgroups::open(kPrefix)) {
      const auto closed = (*cgroups)->close();
      EXPECT_TRUE(closed) << closed.error().message;
    }
    const auto storage =
        Storage::open({.lib_folder = folder_ + "/lib", .pool_mb = 256, .driver = "tmpfs"});
    if (storage) {
      const auto closed = (*storage)->close();
      EXPECT_TRUE(closed) << closed.error().message;
    }
  }

  // A copy of this process that is the node until it is told to stop, or dies at `fault`.
  std::unique_ptr<Client> start_node(const char* fault = nullptr) {
    // A shell that was just cloned by one that was killed listens there for a moment more.
    ::unlink((folder_ + "/run/node.sock").c_str());
    node_ = ::fork();
    if (node_ == 0) {
      if (fault != nullptr) {
        ::setenv("SANDBOX_FAULT", fault, 1);
      }
      run_node();
    }
    std::unique_ptr<Client> client;
    EXPECT_TRUE(eventually([&] {
      auto socket = base::sys::connect_unix(folder_ + "/run/node.sock", false);
      if (socket) {
        client = std::make_unique<Client>(std::move(*socket));
      }
      return client != nullptr || ::waitpid(node_, nullptr, WNOHANG) == node_;
    }));
    EXPECT_TRUE(client) << "the node did not start";
    return client;
  }
  [[noreturn]] void run_node() const {
    base::Log log(STDERR_FILENO, base::LogLevel::warning);
    base::RealClock clock;
    net::EventLoop loop;
    sigset_t terminate;
    ::sigemptyset(&terminate);
    ::sigaddset(&terminate, SIGTERM);
    ::sigprocmask(SIG_BLOCK, &terminate, nullptr);
    const base::Fd signals(::signalfd(-1, &terminate, SFD_CLOEXEC | SFD_NONBLOCK));
    auto node = Node::open(loop, options(), clock, log);
    if (!node) {
      log.error("cannot start", {{"error", node.error().message}});
      ::_exit(1);
    }
    loop.watch(signals.get(), net::EventLoop::Direction::read, [&] { (*node)->stop_soon(); });
    (*node)->run();
    loop.forget(signals.get());
    node->reset();
    ::_exit(0);
  }
  int stop_node(int signal) {
    int status = 0;
    if (node_ > 0) {
      ::kill(node_, signal);
      ::waitpid(node_, &status, 0);
      node_ = -1;
    }
    return status;
  }

  [[nodiscard]] Object create_request(const std::string& id) const {
    return Object{
        {"op", "create"},
        {"spec",
         Object{{"id", id},
                {"containers", wire::json::Array{Object{{"name", "main"},
                                                        {"image", "dir:" + folder_ + "/image"},
                                                        {"env", Object{{"SECRET", "in no log"}}}}}},
                {"resources",
                 Object{{"millicpus", 500}, {"memory_mb", 64}, {"storage_mb", 16}, {"pids", 32}}},
                {"network", "open"},
                {"no_new_privileges", false},
                {"always_pull", false}}}};
  }
  // Two containers with a volume that both have, one with a tmpfs.
  [[nodiscard]] Object create_group_request(const std::string& id) const {
    Object request = create_request(id);
    auto& containers = request["spec"].as_object()["containers"].as_array();
    const Object service{{"tty", false},
                         {"stdin", false},
                         {"restart", "no"},
                         {"restarts_max", 0},
                         {"command", wire::json::Array{"x"}},
                         {"depends_on", wire::json::Array{}}};
    const auto mount = [](const char* volume, const char* target) {
      return Object{{"volume", volume},
                    {"target", target},
                    {"read_only", false},
                    {"copy", true},
                    {"size_mb", 1}};
    };
    Object& main = containers.front().as_object();
    main["service"] = service;
    main["mounts"] = wire::json::Array{mount("v", "/data/deep"), mount("", "/run")};
    Object other = main;
    other["name"] = "other";
    other["mounts"] = wire::json::Array{mount("v", "/data")};
    other["limits"] = Object{{"millicpus", 100}, {"memory_mb", 16}, {"pids", 16}};
    containers.push_back(std::move(other));
    return request;
  }
  std::string state_of(Client& client, const std::string& id) {
    return text_at(client.call({{"op", "get"}, {"id", id}}), "ok", "state");
  }
  // Creates and waits for the image where it is not here yet.
  std::string create(Client& client, const std::string& id) {
    const auto answer = client.call(create_request(id));
    std::string state = text_at(answer, "ok", "state");
    while (state == "starting") {
      ::usleep(kPauseMicroseconds);
      state = state_of(client, id);
    }
    return state;
  }
  [[nodiscard]] pid_t pid_of(const std::string& id) const {
    const auto record = read_record(folder_ + "/run/sandboxes/" + id);
    return record ? record->process.pid : -1;
  }

  // Everything on this machine that bears this node's name.
  [[nodiscard]] std::multiset<std::string> leftovers() const {
    std::multiset<std::string> found;
    const auto add = [&found](const std::string& folder, const std::string& prefix) {
      for (const auto& name : base::sys::list_folder(folder).value_or(std::vector<std::string>())) {
        if (name.starts_with(prefix)) {
          found.insert(base::cat(folder, "/", name));
        }
      }
    };
    add("/sys/class/net", kPrefix);
    add(folder_ + "/run/sandboxes", "");
    const auto cgroups = Cgroups::open(kPrefix);
    for (const auto& name : cgroups ? (*cgroups)->list().value_or(std::vector<std::string>())
                                    : std::vector<std::string>()) {
      found.insert("cgroup " + name);
    }
    const auto mounts = base::sys::read_file("/proc/self/mountinfo", kLineBytesMax);
    size_t count = 0;
    for (size_t at = mounts->find(folder_); at != std::string::npos;
         at = mounts->find(folder_, at + 1)) {
      ++count;
    }
    found.insert(base::cat("mounts ", count > 0 ? "some" : "none"));
    add(folder_ + "/lib/areas", "s");
    return found;
  }

  static constexpr const char* kPrefix = "nt";
  std::string folder_;
  size_t shells_ = 0;
  pid_t node_ = -1;
};

TEST_F(NodeTest, creates_at_once_where_the_image_is_and_removes_without_a_trace) {
  auto client = start_node();
  ASSERT_TRUE(client);
  EXPECT_EQ(create(*client, "first"), "ready");
  ASSERT_TRUE(client->call({{"op", "remove"}, {"id", "first"}}));
  EXPECT_TRUE(eventually([&] { return leftovers().size() == 1; }));
  const auto before = leftovers();

  EXPECT_EQ(text_at(client->call(create_request("second")), "ok", "state"), "ready");
  EXPECT_EQ(text_at(client->call(create_request("second")), "ok", "state"), "ready");
  EXPECT_EQ(::kill(pid_of("second"), 0), 0);
  ASSERT_TRUE(client->call({{"op", "remove"}, {"id", "second"}}));
  ASSERT_TRUE(client->call({{"op", "remove"}, {"id", "second"}}));
  EXPECT_EQ(text_at(client->call({{"op", "get"}, {"id", "second"}}), "error", "code"), "not_found");
  EXPECT_TRUE(eventually([&] { return leftovers() == before; }));
}

TEST_F(NodeTest, refuses_what_is_wrong_with_a_spec_and_keeps_nothing_of_it) {
  auto client = start_node();
  ASSERT_TRUE(client);
  auto request = create_request("../escape");
  EXPECT_EQ(text_at(client->call(request), "error", "code"), "invalid_field");
  request = create_request("fine");
  request["spec"].as_object()["resources"].as_object()["memory_mb"] = 0;
  EXPECT_EQ(text_at(client->call(request), "error", "code"), "invalid_field");
  request = create_request("fine");
  request["spec"].as_object()["surprise"] = 1;
  EXPECT_EQ(text_at(client->call(request), "error", "code"), "unknown_field");
  request = create_request("fine");
  auto& containers = request["spec"].as_object()["containers"].as_array();
  containers.push_back(containers.front());
  EXPECT_EQ(text_at(client->call(request), "error", "code"), "invalid_field");  // one name twice
  EXPECT_EQ(text_at(client->call({{"op", "no such"}}), "error", "code"), "not_supported");
  EXPECT_EQ(leftovers().size(), 1U);
}

TEST_F(NodeTest, a_sandbox_of_several_containers_starts_is_adopted_and_goes_without_a_trace) {
  auto client = start_node();
  ASSERT_TRUE(client);
  EXPECT_EQ(create(*client, "first"), "ready");  // the image is here from now on
  ASSERT_TRUE(client->call({{"op", "remove"}, {"id", "first"}}));
  EXPECT_TRUE(eventually([&] { return leftovers().size() == 1; }));
  const auto before = leftovers();
  EXPECT_EQ(text_at(client->call(create_group_request("group")), "ok", "state"), "ready");
  const std::string folder = folder_ + "/run/sandboxes/group";
  for (const char* socket : {"/agent.sock", "/agent-1.sock"}) {
    EXPECT_TRUE(base::sys::connect_unix(folder + socket, false)) << socket;
  }
  const auto record = read_record(folder);
  ASSERT_TRUE(record) << record.error().message;
  ASSERT_EQ(record->others.size(), 1U);
  EXPECT_EQ(record->others.front().name, "other");
  const pid_t other = record->others.front().process.pid;
  const auto mounts = base::sys::read_file(base::cat("/proc/", other, "/mounts"), kLineBytesMax);
  EXPECT_NE(mounts->find(" /data "), std::string::npos) << *mounts;
  // One network for both.
  const auto network = [](pid_t pid) {
    return std::filesystem::read_symlink(base::cat("/proc/", pid, "/ns/net"));
  };
  EXPECT_EQ(network(other), network(record->process.pid));
  client.reset();
  stop_node(SIGKILL);
  client = start_node();
  ASSERT_TRUE(client);
  EXPECT_EQ(state_of(*client, "group"), "ready");
  ASSERT_TRUE(client->call({{"op", "remove"}, {"id", "group"}}));
  EXPECT_TRUE(eventually([&] { return leftovers() == before; }));
}

TEST_F(NodeTest, one_container_that_ends_ends_the_sandbox) {
  auto client = start_node();
  ASSERT_TRUE(client);
  EXPECT_EQ(create(*client, "first"), "ready");
  ASSERT_TRUE(client->call({{"op", "remove"}, {"id", "first"}}));
  EXPECT_EQ(text_at(client->call(create_group_request("group")), "ok", "state"), "ready");
  const auto record = read_record(folder_ + "/run/sandboxes/group");
  ASSERT_TRUE(record);
  ::kill(record->others.front().process.pid, SIGKILL);
  EXPECT_TRUE(eventually([&] { return state_of(*client, "group") == "failed"; }));
  EXPECT_TRUE(eventually([&] { return ::kill(record->process.pid, 0) != 0; }));
  const auto status = client->call({{"op", "get"}, {"id", "group"}});
  EXPECT_NE(text_at(status, "ok", "message").find("'other'"), std::string::npos);
  client.reset();
  // A node that finds the rest of one ends that too.
  stop_node(SIGTERM);
  client = start_node();
  ASSERT_TRUE(client);
  EXPECT_EQ(state_of(*client, "group"), "failed");
  ASSERT_TRUE(client->call({{"op", "remove"}, {"id", "group"}}));
}

TEST_F(NodeTest, tells_watchers_that_a_sandbox_lost_its_agent) {
  auto client = start_node();
  ASSERT_TRUE(client);
  ASSERT_EQ(create(*client, "victim"), "ready");
  ASSERT_TRUE(client->call({{"op", "watch"}}));
  ASSERT_EQ(::kill(pid_of("victim"), SIGKILL), 0);
  const auto event = client->next();
  ASSERT_TRUE(event);
  const auto& status = event->at("event").as_object().at("status").as_object();
  EXPECT_EQ(status.at("state").as_string(), "failed");
  EXPECT_EQ(status.at("reason").as_string(), "agent_lost");
  EXPECT_EQ(state_of(*client, "victim"), "failed");
  ASSERT_TRUE(client->call({{"op", "remove"}, {"id", "victim"}}));
  EXPECT_TRUE(eventually([&] { return leftovers().size() == 1; }));
}

TEST_F(NodeTest, keeps_places_ready_and_gives_them_back_at_its_end) {
  shells_ = 3;
  auto client = start_node();
  ASSERT_TRUE(client);
  const auto ready = [&] {
    const auto names = base::sys::list_folder(folder_ + "/run/sandboxes");
    return names && names->size() == 3;
  };
  EXPECT_TRUE(eventually(ready));
  ASSERT_EQ(create(*client, "one"), "ready");
  ASSERT_TRUE(client->call({{"op", "remove"}, {"id", "one"}}));
  EXPECT_TRUE(eventually(ready));
  EXPECT_EQ(stop_node(SIGTERM), 0);
  EXPECT_TRUE(eventually([&] { return leftovers().size() == 1; }));
}

TEST_F(NodeTest, takes_its_firewall_along_once_no_sandbox_needs_it) {
  shells_ = 1;
  const auto firewall = [] {
    return run_program({"nft", "list", "tables"}).value().contains(base::cat(" ", kPrefix, "_"));
  };
  auto client = start_node();
  ASSERT_TRUE(client);
  ASSERT_EQ(create(*client, "one"), "ready");
  EXPECT_EQ(stop_node(SIGTERM), 0);
  EXPECT_TRUE(firewall());
  client = start_node();
  ASSERT_TRUE(client);
  ASSERT_EQ(state_of(*client, "one"), "ready");
  ASSERT_TRUE(client->call({{"op", "remove"}, {"id", "one"}}));
  EXPECT_EQ(stop_node(SIGTERM), 0);
  EXPECT_FALSE(firewall());
  EXPECT_FALSE(run_program({"ip", "addr", "show", "dev", "lo"}).value().contains("10.213.0.0"));
  for (const auto* hierarchy : {"", "/unified", "/memory", "/cpu", "/pids"}) {
    EXPECT_FALSE(std::filesystem::exists(base::cat("/sys/fs/cgroup", hierarchy, "/", kPrefix)));
  }
}

TEST_F(NodeTest, a_second_one_with_the_same_prefix_or_subnet_does_not_start) {
  const auto client = start_node();
  ASSERT_TRUE(client);
  base::Log log(STDERR_FILENO, base::LogLevel::warning);
  base::RealClock clock;
  net::EventLoop loop;
  NodeOptions second = options();
  second.run_folder += "2";
  second.lib_folder += "2";
  const auto refused = [&](const std::string& word) {
    const auto node = Node::open(loop, second, clock, log);
    return !node && node.error().message.contains(word) ? "" : word;
  };
  EXPECT_EQ(refused("name-prefix"), "");
  second.name_prefix += "2";
  EXPECT_EQ(refused("subnet"), "");
}

TEST_F(NodeTest, reports_a_sandbox_that_ended_while_the_node_was_away) {
  auto client = start_node();
  ASSERT_TRUE(client);
  ASSERT_EQ(create(*client, "victim"), "ready");
  const pid_t pid = pid_of("victim");
  stop_node(SIGKILL);
  ::kill(pid, SIGKILL);
  client = start_node();
  ASSERT_TRUE(client);
  EXPECT_TRUE(eventually([&] { return state_of(*client, "victim") == "failed"; }));
  ASSERT_TRUE(client->call({{"op", "remove"}, {"id", "victim"}}));
  EXPECT_TRUE(eventually([&] { return leftovers().size() == 1; }));
}

#ifdef SANDBOX_FAULT_POINTS
TEST_F(NodeTest, killed_at_any_step_it_loses_no_sandbox_and_leaks_nothing) {
  auto client = start_node();
  ASSERT_TRUE(client);
  ASSERT_EQ(create(*client, "keep"), "ready");
  const pid_t kept = pid_of("keep");
  const auto before = leftovers();
  for (const char* fault : kFaultPoints) {
    SCOPED_TRACE(fault);
    client.reset();
    stop_node(SIGKILL);
    client = start_node(fault);
    ASSERT_TRUE(client);
    if (client->call(create_request("victim"))) {
      client->call({{"op", "remove"}, {"id", "victim"}});
    }
    int status = 0;
    ASSERT_EQ(::waitpid(node_, &status, 0), node_);
    node_ = -1;
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << "never got there";

    client = start_node();
    ASSERT_TRUE(client);
    EXPECT_EQ(state_of(*client, "keep"), "ready");
    EXPECT_EQ(pid_of("keep"), kept);
    EXPECT_EQ(::kill(kept, 0), 0);
    ASSERT_TRUE(client->call({{"op", "remove"}, {"id", "victim"}}));
    ASSERT_EQ(text_at(client->call(create_request("victim")), "ok", "state"), "ready");
    ASSERT_TRUE(client->call({{"op", "remove"}, {"id", "victim"}}));
    EXPECT_TRUE(eventually([&] { return leftovers() == before; }))
        << testing::PrintToString(leftovers());
  }
  ASSERT_TRUE(client->call({{"op", "remove"}, {"id", "keep"}}));
  EXPECT_TRUE(eventually([&] { return leftovers().size() == 1; }));
}
#endif

}  // namespace
}  // namespace node
