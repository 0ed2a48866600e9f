#include "node/images.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <deque>

#include "base/sys.h"
#include "net/task_group.h"
#include "node/image_firewall.h"
#include "node/program.h"
#include "wire/json.h"
#include "wire/tar_testing.h"

namespace node {
namespace {

namespace sys = base::sys;
using base::cat;
using namespace std::chrono_literals;
using wire::TarBuilder;
using wire::json::Array;
using wire::json::Object;

constexpr uint32_t kIdBase = 1'900'000'000;  // of no other node on this machine

std::string new_folder() {
  char name[] = "/tmp/images-test-XXXXXX";
  return ::mkdtemp(static_cast<char*>(name));
}

std::string sha256(const std::string& bytes) {
  const auto sum = run_program({"sha256sum"}, bytes);
  return sum ? cat("sha256:", sum->substr(0, 64)) : "";
}

// An image as skopeo's dir: layout, ready to be pushed.
struct ImageSource {
  std::vector<std::string> layers;  // tars
  std::string architecture = "amd64";
  std::string wrong_diff_id;
  std::string user;

  void write(const std::string& folder) const {
    ASSERT_TRUE(sys::make_folder(folder, 0755));
    Array ids;
    Array descriptors;
    for (const auto& tar : layers) {
      ids.emplace_back(wrong_diff_id.empty() ? sha256(tar) : wrong_diff_id);
      descriptors.push_back(blob(folder, "application/vnd.oci.image.layer.v1.tar", tar));
    }
    const Object config{{"os", "linux"},
                        {"architecture", architecture},
                        {"config", {{"Env", Array{"PATH=/bin", "A=b=c"}}, {"User", user}}},
                        {"rootfs", {{"type", "layers"}, {"diff_ids", ids}}}};
    const Object manifest{{"schemaVersion", 2},
                          {"mediaType", "application/vnd.oci.image.manifest.v1+json"},
                          {"config", blob(folder, "application/vnd.oci.image.config.v1+json",
                                          wire::json::serialize(config))},
                          {"layers", descriptors}};
    put(folder + "/manifest.json", wire::json::serialize(manifest));
    put(folder + "/version", "Directory Transport Version: 1.1\n");
  }
  static Object blob(const std::string& folder, const std::string& type, const std::string& bytes) {
    const std::string digest = sha256(bytes);
    put(cat(folder, "/", digest.substr(7)), bytes);
    return {{"mediaType", type}, {"digest", digest}, {"size", bytes.size()}};
  }
  static void put(const std::string& path, const std::string& bytes) {
    EXPECT_TRUE(sys::replace_file(path, bytes, 0644));
  }
};

// A real registry on loopback, one for all tests of this program.
class Registry {
 public:
  // With `data` of another registry and `login`: the same images, behind user "u", password "U*U".
  explicit Registry(const std::string& data = "", bool login = false) : folder_(new_folder()) {
    data_folder = data.empty() ? folder_ + "/data" : data;
    std::string auth;
    if (login) {
      ImageSource::put(folder_ + "/users",
                       "u:$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW\n");
      auth = cat("auth:\n  htpasswd:\n    realm: test\n    path: ", folder_, "/users\n");
    }
    base::Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(::bind(socket.get(), any, size), 0);
    EXPECT_EQ(::getsockname(socket.get(), any, &size), 0);
    host = cat("127.0.0.1:", ntohs(address.sin_port));
    socket.reset();  // the registry binds it itself
    ImageSource::put(folder_ + "/config.yml",
                     cat("version: 0.1\nstorage:\n  filesystem:\n    rootdirectory: ", data_folder,
                         "\nhttp:\n  addr: ", host,
                         "\nlog:\n  level: error\n  accesslog:\n    disabled: true\n", auth));
    std::string program = "docker-registry";
    std::string command = "serve";
    std::string config = folder_ + "/config.yml";
    char* const arguments[] = {program.data(), command.data(), config.data(), nullptr};
    const base::Fd quiet = std::move(*sys::open("/dev/null", O_WRONLY));
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, quiet.get(), STDERR_FILENO);
    started_ = ::posix_spawnp(&pid_, "docker-registry", &actions, nullptr, arguments, environ) == 0;
    ::posix_spawn_file_actions_destroy(&actions);
    for (int tries = 0; started_ && tries < 500; ++tries) {
      const base::Fd client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      if (::connect(client.get(), any, sizeof address) == 0) {
        break;
      }
      ::usleep(20'000);  // until it listens
    }
  }
  ~Registry() {
    if (started_) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
    EXPECT_TRUE(sys::remove_tree(folder_));
  }
  [[nodiscard]] bool is_up() const { return started_; }
  // Its name there, normalised.
  std::string push(const std::string& name, const ImageSource& image) const {
    const std::string folder = cat(folder_, "/push");
    EXPECT_TRUE(sys::remove_tree(folder));
    image.write(folder);
    std::string reference = cat(host, "/", name);
    const auto pushed =
        run_program({"skopeo", "--insecure-policy", "copy", "--quiet", "--dest-tls-verify=false",
                     cat("dir:", folder), cat("docker://", reference)});
    EXPECT_TRUE(pushed) << pushed.error().message;
    return reference;
  }
  std::string host;
  std::string data_folder;

 private:
  std::string folder_;
  pid_t pid_ = -1;
  bool started_ = false;
};

class ImagesTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (::geteuid() == 0 && !find_program("docker-registry").empty()) {
      registry_ = new Registry();
    }
  }
  static void TearDownTestSuite() {
    delete registry_;
    registry_ = nullptr;
  }
  void SetUp() override {
    if (registry_ == nullptr || !registry_->is_up()) {
      GTEST_SKIP() << "needs root and docker-registry";
    }
    access_.plain_http = true;
    lib_ = new_folder();
    open();
  }
  void TearDown() override {
    close();
    if (!lib_.empty()) {
      EXPECT_TRUE(sys::remove_tree(lib_));
      EXPECT_TRUE(forget_helper(prefix()));
    }
  }
  static std::string prefix() { return cat("imgtest", ::getpid()); }

  void open() {
    char self[4096];
    const ssize_t size = ::readlink("/proc/self/exe", self, sizeof self);
    const std::string program(self, static_cast<size_t>(size));
    auto images =
        Images::open(loop_,
                     {.lib_folder = lib_,
                      .helper = cat(program.substr(0, program.rfind('/')), "/sandbox-image"),
                      .id_base = kIdBase,
                      .allow_local = true,
                      .name_prefix = prefix(),
                      .free_percent_min = free_percent_min_},
                     clock_, log_);
    ASSERT_TRUE(images) << images.error().message;
    images_ = std::move(*images);
  }
  void close() {
    if (images_) {
      run(stop());
      images_.reset();
    }
  }
  net::Task<void> stop() { co_await images_->stop(); }
  void run(net::Task<void> task) {
    net::TaskGroup group(loop_);
    group.spawn(std::move(task));
    while (group.size() > 0) {
      loop_.run_once(100ms);
    }
  }
  net::Task<void> ensure_into(std::string name, bool always, Result<ImageLayers>& out) {
    out = co_await images_->ensure(
        std::move(name), access_, always,
        [this](const std::string& type, const std::string&) { events_.push_back(type); });
  }
  Result<ImageLayers> ensure(const std::string& name, bool always = false) {
    Result<ImageLayers> out;
    run(ensure_into(name, always, out));
    return out;
  }
  net::Task<void> import_into(std::string name, base::Fd tar, Result<ImageRow>& out) {
    out = co_await images_->import(std::move(name), std::move(tar));
  }
  Result<ImageRow> import(const std::string& name, const std::string& tar) {
    Result<ImageRow> out;
    ImageSource::put(lib_ + "/import.tar", tar);
    run(import_into(name, std::move(*sys::open(lib_ + "/import.tar", O_RDONLY)), out));
    return out;
  }
  static std::string reason(const base::Error& error) {
    for (const auto& [key, value] : error.details) {
      if (key == "reason") {
        return value;
      }
    }
    return "none";
  }
  std::string refused(const std::string& name) {
    const auto layers = ensure(name);
    return layers ? "" : reason(layers.error());
  }
  std::vector<std::string> stored(const std::string& folder) const {
    const auto names = sys::list_folder(cat(lib_, "/images/", folder));
    return names ? *names : std::vector<std::string>{"?"};
  }

  inline static Registry* registry_ = nullptr;
  std::string lib_;
  net::EventLoop loop_;
  base::FakeClock clock_;
  base::Log log_{STDERR_FILENO, base::LogLevel::error};
  model::RegistryAccess access_;
  std::vector<std::string> events_;
  int free_percent_min_ = 0;
  std::unique_ptr<Images> images_;
};

TEST_F(ImagesTest, pulls_an_image_from_a_registry) {
  const auto lower = TarBuilder()
                         .folder("a/")
                         .file("a/old", "old")
                         .add({.name = "mine", .data = "m", .mode = 04755, .uid = 1000, .gid = 42})
                         .finish();
  const auto upper = TarBuilder()
                         .folder("a/")
                         .file("a/new", "new")
                         .file("a/.wh..wh..opq", "")
                         .file(".wh.gone", "")
                         .finish();
  const auto name = registry_->push("t/demo:1", {.layers = {lower, upper}, .user = "node"});
  const auto layers = ensure(name);
  ASSERT_TRUE(layers) << layers.error().message;
  EXPECT_EQ(events_, (std::vector<std::string>{"pulling", "pulled"}));
  ASSERT_EQ(layers->folders.size(), 2U);
  EXPECT_EQ(sys::read_file(layers->folders[0] + "/a/new", 10).value_or("absent"), "new");
  EXPECT_EQ(sys::read_file(layers->folders[1] + "/a/old", 10).value_or("absent"), "old");
  char value[8];
  EXPECT_EQ(::getxattr((layers->folders[0] + "/a").c_str(), "trusted.overlay.opaque", value,
                       sizeof value),
            1);
  struct stat info{};
  ASSERT_EQ(::lstat((layers->folders[1] + "/mine").c_str(), &info), 0);
  EXPECT_EQ(info.st_uid, 1000U);  // plain ids on disk
  EXPECT_EQ(info.st_gid, 42U);
  EXPECT_EQ(info.st_mode & 07777, 04755U);
  ASSERT_EQ(::lstat((layers->folders[0] + "/gone").c_str(), &info), 0);
  EXPECT_TRUE(S_ISCHR(info.st_mode) && info.st_rdev == 0);
  EXPECT_EQ(layers->config.user, "node");
  EXPECT_EQ(layers->config.environment.at("A"), "b=c");
  EXPECT_TRUE(stored("jobs").empty() || stored("jobs").size() == 1);  // what is being deleted
}

TEST_F(ImagesTest, a_folder_that_a_layer_does_not_describe_stays_as_it_was_below) {
  TarBuilder lower;
  lower.add({.name = "spool/", .type = '5', .mode = 01777, .uid = 5, .gid = 6});
  const auto upper = TarBuilder().file("spool/new", "n").file("fresh/f", "f").finish();
  const auto name = registry_->push("t/implied:1", {.layers = {lower.finish(), upper}});
  const auto layers = ensure(name);
  ASSERT_TRUE(layers) << layers.error().message;
  struct stat info{};
  ASSERT_EQ(::lstat((layers->folders[0] + "/spool").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 01777U);
  EXPECT_EQ(info.st_uid, 5U);
  EXPECT_EQ(info.st_gid, 6U);
  ASSERT_EQ(::lstat((layers->folders[0] + "/fresh").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0755U);
}

TEST_F(ImagesTest, finds_an_image_again_without_a_pull_and_after_a_restart) {
  const auto name =
      registry_->push("t/again:1", {.layers = {TarBuilder().file("f", "1").finish()}});
  ASSERT_TRUE(ensure(name));
  EXPECT_TRUE(images_->find(name, access_));
  close();
  open();
  const auto found = images_->find(name, access_);
  ASSERT_TRUE(found);
  EXPECT_EQ(sys::read_file(found->folders[0] + "/f", 10).value_or("absent"), "1");
  EXPECT_EQ(images_->list().size(), 1U);
  EXPECT_EQ(images_->get(name)->source, "registry");
  EXPECT_EQ(images_->get(name)->size_bytes, 1);
}

TEST_F(ImagesTest, always_pull_takes_what_the_registry_has_now) {
  const auto name =
      registry_->push("t/moves:1", {.layers = {TarBuilder().file("f", "1").finish()}});
  const auto first = ensure(name);
  ASSERT_TRUE(first);
  EXPECT_EQ(ensure(name, true)->digest, first->digest);
  registry_->push("t/moves:1", {.layers = {TarBuilder().file("f", "2").finish()}});
  EXPECT_EQ(ensure(name)->digest, first->digest);
  const auto second = ensure(name, true);
  ASSERT_TRUE(second);
  EXPECT_NE(second->digest, first->digest);
  EXPECT_EQ(sys::read_file(second->folders[0] + "/f", 10).value_or("absent"), "2");
}

TEST_F(ImagesTest, concurrent_pulls_share_jobs_and_layers) {
  const auto base = TarBuilder().file("base", std::string(100'000, 'b')).finish();
  const auto one =
      registry_->push("t/one:1", {.layers = {base, TarBuilder().file("f", "1").finish()}});
  const auto two =
      registry_->push("t/two:1", {.layers = {base, base, TarBuilder().file("f", "2").finish()}});
  std::deque<Result<ImageLayers>> results(6);
  net::TaskGroup group(loop_);
  for (size_t i = 0; i < results.size(); ++i) {
    group.spawn(ensure_into(i % 2 == 0 ? one : two, false, results[i]));
  }
  while (group.size() > 0) {
    loop_.run_once(100ms);
  }
  for (const auto& result : results) {
    ASSERT_TRUE(result) << result.error().message;
    EXPECT_EQ(result->folders.size(), 2U);
  }
  EXPECT_EQ(results[0]->folders[1], results[1]->folders[1]);
  EXPECT_EQ(stored("layers").size(), 3U);
}

TEST_F(ImagesTest, failures_have_their_reasons_and_leave_nothing) {
  const auto tar = TarBuilder().file("f", "1").finish();
  EXPECT_EQ(refused(cat(registry_->host, "/t/none:1")), "image_not_found");
  EXPECT_EQ(refused(registry_->push("t/arm:1", {.layers = {tar}, .architecture = "arm64"})),
            "image_platform_mismatch");
  EXPECT_EQ(
      refused(registry_->push(
          "t/diff:1", {.layers = {tar}, .wrong_diff_id = cat("sha256:", std::string(64, 'e'))})),
      "image_digest_mismatch");
  EXPECT_EQ(
      refused(registry_->push("t/evil:1", {.layers = {TarBuilder().file("../x", "1").finish()}})),
      "image_invalid");
  EXPECT_EQ(refused(cat(registry_->host, "/t/diff@sha256:", std::string(64, '0'))),
            "image_not_found");
  EXPECT_EQ(refused("127.0.0.1:1/t/x:1"), "image_pull_failed");
  EXPECT_EQ(refused("169.254.169.254/t/x:1"), "image_pull_denied");
  EXPECT_TRUE(stored("layers").empty());
  EXPECT_TRUE(stored("index").empty());
  EXPECT_EQ(refused(registry_->push("t/diff:1", {.layers = {tar}})), "");
}

TEST_F(ImagesTest, a_loopback_registry_needs_the_operators_word) {
  const auto name =
      registry_->push("t/plain:1", {.layers = {TarBuilder().file("f", "1").finish()}});
  access_.plain_http = false;
  EXPECT_EQ(refused(name), "image_pull_denied");
}

TEST_F(ImagesTest, a_registry_with_login_wants_the_right_password) {
  const Registry closed(registry_->data_folder, true);
  registry_->push("t/login:1", {.layers = {TarBuilder().file("f", "1").finish()}});
  const std::string name = cat(closed.host, "/t/login:1");
  EXPECT_EQ(refused(name), "image_pull_denied");
  access_.username = "u";
  access_.password = base::Secret("not-the-password");
  const auto wrong = ensure(name);
  ASSERT_FALSE(wrong);
  EXPECT_EQ(reason(wrong.error()), "image_pull_denied");
  EXPECT_FALSE(wrong.error().message.contains("not-the-password"));
  access_.password = base::Secret("U*U");
  EXPECT_EQ(refused(name), "");
}

TEST_F(ImagesTest, the_mirror_is_tried_first_and_the_registry_after_it) {
  const auto name =
      registry_->push("t/mirrored:1", {.layers = {TarBuilder().file("f", "1").finish()}});
  access_.mirror = registry_->host;
  EXPECT_TRUE(ensure("docker.io/t/mirrored:1"));
  access_.mirror = "127.0.0.1:1";
  EXPECT_TRUE(ensure(name));
}

TEST_F(ImagesTest, an_image_of_one_teams_credentials_is_checked_for_another) {
  const auto name =
      registry_->push("t/private:1", {.layers = {TarBuilder().file("f", "1").finish()}});
  access_.username = "one";
  access_.password = base::Secret("secret-of-one");
  ASSERT_TRUE(ensure(name));
  EXPECT_TRUE(images_->find(name, access_));
  model::RegistryAccess other = access_;
  other.username = "two";
  EXPECT_FALSE(images_->find(name, other));
  access_ = other;
  ASSERT_TRUE(ensure(name));  // this registry lets everybody in
  EXPECT_TRUE(images_->find(name, other));
}

TEST_F(ImagesTest, imports_a_root_file_system) {
  const auto tar = TarBuilder().folder("./").folder("etc/").file("etc/name", "demo").finish();
  const auto row = import("debian-demo", tar);
  ASSERT_TRUE(row) << row.error().message;
  EXPECT_EQ(row->digest, sha256(tar));
  EXPECT_EQ(row->source, "import");
  const auto found = images_->find("debian-demo", access_);
  ASSERT_TRUE(found);
  EXPECT_EQ(sys::read_file(found->folders[0] + "/etc/name", 10).value_or("absent"), "demo");
  EXPECT_TRUE(ensure("debian-demo", true));  // there is no registry to ask
  EXPECT_EQ(import("debian-demo", "garbage that is no tar").error().code,
            base::ErrorCode::archive_invalid);
  EXPECT_TRUE(images_->find("debian-demo", access_));
  EXPECT_EQ(import("UP", tar).error().code, base::ErrorCode::invalid_field);
}

TEST_F(ImagesTest, takes_folders_and_tars_of_this_machine) {
  const std::string root = lib_ + "/root";
  ASSERT_TRUE(sys::make_folders(root + "/bin", 0755));
  ASSERT_TRUE(sys::replace_file(root + "/bin/x", "x", 0700));
  ASSERT_EQ(::chown((root + "/bin/x").c_str(), 7, 8), 0);
  const auto layers = ensure(cat("dir:", root));
  ASSERT_TRUE(layers) << layers.error().message;
  struct stat info{};
  ASSERT_EQ(::lstat((layers->folders[0] + "/bin/x").c_str(), &info), 0);
  EXPECT_EQ(info.st_uid, 7U);
  ImageSource::put(lib_ + "/root.tar", TarBuilder().file("t", "t").finish());
  EXPECT_TRUE(ensure(cat("tar:", lib_, "/root.tar")));
  EXPECT_FALSE(ensure(cat("tar:", lib_, "/absent.tar")));
}

TEST_F(ImagesTest, what_is_used_is_kept_and_the_rest_can_go) {
  images_->collect_layers();
  const auto base = TarBuilder().file("base", std::string(1000, 'b')).finish();
  const auto one =
      registry_->push("t/keep:1", {.layers = {base, TarBuilder().file("f", "1").finish()}});
  const auto two =
      registry_->push("t/drop:1", {.layers = {base, TarBuilder().file("f", "22").finish()}});
  const auto kept = ensure(one);
  ASSERT_TRUE(kept && ensure(two));
  images_->hold(*kept);
  EXPECT_TRUE(images_->get(one)->in_use);
  EXPECT_EQ(images_->remove(one).error().code, base::ErrorCode::in_use);
  const auto result = images_->gc();
  EXPECT_EQ(result.removed, std::vector<std::string>{two});
  EXPECT_EQ(result.freed_bytes, 2);
  EXPECT_EQ(stored("layers").size(), 2U);
  images_->unhold(*kept);
  EXPECT_TRUE(images_->remove(one));
  EXPECT_TRUE(stored("layers").empty());
  EXPECT_EQ(images_->remove(one).error().code, base::ErrorCode::not_found);
}

TEST_F(ImagesTest, layers_of_a_replaced_image_stay_while_a_sandbox_uses_them) {
  images_->collect_layers();
  const auto name =
      registry_->push("t/replaced:1", {.layers = {TarBuilder().file("f", "1").finish()}});
  const auto old = ensure(name);
  ASSERT_TRUE(old);
  images_->hold(*old);
  registry_->push("t/replaced:1", {.layers = {TarBuilder().file("f", "2").finish()}});
  ASSERT_TRUE(ensure(name, true));
  EXPECT_EQ(sys::read_file(old->folders[0] + "/f", 10).value_or("absent"), "1");
  images_->unhold(*old);
  images_->collect_layers();
  EXPECT_EQ(stored("layers").size(), 1U);
}

TEST_F(ImagesTest, shrinks_by_least_recent_use_and_keeps_what_was_imported) {
  images_->collect_layers();
  ASSERT_TRUE(import("imported", TarBuilder().file("f", std::string(100, '0')).finish()));
  std::vector<std::string> pulled;
  for (const char digit : {'1', '2'}) {
    clock_.advance(1h);
    pulled.push_back(
        registry_->push(cat("t/shrink:", digit),
                        {.layers = {TarBuilder().file("f", std::string(100, digit)).finish()}}));
    ASSERT_TRUE(ensure(pulled.back()));
  }
  clock_.advance(1h);
  ASSERT_TRUE(images_->find(pulled[0], access_));
  EXPECT_EQ(images_->shrink(250).removed, std::vector<std::string>{pulled[1]});
  EXPECT_EQ(images_->shrink(0).removed, std::vector<std::string>{pulled[0]});
  EXPECT_TRUE(images_->get("imported"));
}

TEST_F(ImagesTest, makes_room_where_the_disk_lacks_it) {
  images_->collect_layers();
  const auto held =
      ensure(registry_->push("t/held:1", {.layers = {TarBuilder().file("f", "1").finish()}}));
  ASSERT_TRUE(held);
  images_->hold(*held);
  const auto idle = registry_->push("t/idle:1", {.layers = {TarBuilder().file("f", "2").finish()}});
  ASSERT_TRUE(ensure(idle));
  EXPECT_TRUE(images_->make_room().removed.empty());
  close();
  free_percent_min_ = 100;  // no disk has that
  open();
  images_->hold(*held);
  EXPECT_TRUE(images_->make_room().removed.empty());  // who holds what is not known yet
  images_->collect_layers();
  EXPECT_EQ(images_->make_room().removed, std::vector<std::string>{idle});
  images_->unhold(*held);
}

TEST_F(ImagesTest, tells_how_a_pull_goes) {
  const auto name =
      registry_->push("t/progress:1", {.layers = {TarBuilder().file("f", "1").finish()}});
  const auto pull = images_->start_pull(name, access_);
  ASSERT_TRUE(pull);
  EXPECT_EQ(*images_->start_pull(name, access_), *pull);
  EXPECT_EQ(images_->progress(*pull)->state, "running");
  ASSERT_TRUE(ensure(name));
  const auto end = images_->progress(*pull);
  EXPECT_EQ(end->state, "succeeded");
  EXPECT_EQ(end->name, name);
  EXPECT_EQ(end->layers, 1);
  EXPECT_EQ(end->layers_done, 1);
  EXPECT_EQ(end->done_bytes, end->total_bytes);
  EXPECT_GT(end->total_bytes, 0);
  EXPECT_EQ(images_->progress("pull-unknown").error().code, base::ErrorCode::not_found);
}

TEST_F(ImagesTest, ends_with_a_pull_under_way_and_clears_up_at_the_next_start) {
  const auto name = registry_->push("t/cut:1", {.layers = {TarBuilder().file("f", "1").finish()}});
  ASSERT_TRUE(images_->start_pull(name, access_));
  close();
  open();
  while (!stored("jobs").empty()) {
    loop_.run_once(10ms);
  }
  EXPECT_TRUE(stored("index").empty());
  EXPECT_TRUE(ensure(name));
}

}  // namespace
}  // namespace node
