#include "engine/fake/fake_engine_testing.h"

#include <sys/socket.h>

#include <array>

#include "base/sys.h"
#include "wire/json.h"

namespace engine {
namespace {

using base::ErrorCode;
using base::fail;
using net::Deadline;
using net::EventLoop;
using net::Task;

constexpr const char* kPresentImage = "demo:latest";

bool is_fresh(AgentConnection& connection) {
  char byte = 0;
  return connection.stream.is_open() && connection.reader.body_finished() &&
         !connection.reader.has_buffered() &&
         ::recv(connection.stream.fd(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0;
}

std::unexpected<base::Error> no_such_sandbox(const std::string& id) {
  return fail(ErrorCode::not_found, "sandbox ", id, " does not exist");
}

}  // namespace

class FakeEngine::FakeImages final : public Images {
 public:
  explicit FakeImages(FakeEngine& engine) : engine_(engine) {}

  void add(const std::string& name, const std::string& source) {
    images_[name] = {.name = name,
                     .digest = "sha256:" + std::string(64, 'a'),
                     .size_bytes = 1,
                     .platform = "linux/amd64",
                     .source = source,
                     .config_json = R"({"entrypoint":[],"cmd":[]})"};
  }
  [[nodiscard]] bool has(const std::string& name) const { return images_.contains(name); }

  Task<Result<std::vector<ImageInfo>>> list() override {
    CO_RETURN_IF_ERROR(engine_.available());
    std::vector<ImageInfo> out;
    out.reserve(images_.size());
    for (const auto& [name, image] : images_) {
      out.push_back(shown(image));
    }
    co_return out;
  }
  Task<Result<ImageInfo>> get(std::string name) override {
    CO_RETURN_IF_ERROR(engine_.available());
    const auto found = images_.find(name);
    if (found == images_.end()) {
      co_return fail(ErrorCode::not_found, "image ", name, " does not exist");
    }
    co_return shown(found->second);
  }
  Task<Result<std::string>> pull(std::string reference, model::RegistryAccess /*access*/) override {
    CO_RETURN_IF_ERROR(engine_.available());
    add(reference, "registry");
    co_return "pull-" + reference;
  }
  Task<Result<PullProgress>> pull_progress(std::string pull_id) override {
    CO_RETURN_IF_ERROR(engine_.available());
    constexpr std::string_view kPrefix = "pull-";
    if (!pull_id.starts_with(kPrefix) || !has(pull_id.substr(kPrefix.size()))) {
      co_return fail(ErrorCode::not_found, "pull ", pull_id, " does not exist");
    }
    co_return PullProgress{.state = "succeeded",
                           .done_bytes = 1,
                           .total_bytes = 1,
                           .layers_done = 1,
                           .layers = 1,
                           .name = pull_id.substr(kPrefix.size())};
  }
  Task<Result<ImageInfo>> import(std::string name, base::Fd tar) override {
    CO_RETURN_IF_ERROR(engine_.available());
    if (!tar) {
      co_return fail(ErrorCode::archive_invalid, "there is no tar");
    }
    add(name, "import");
    co_return shown(images_.at(name));
  }
  Task<Result<void>> remove(std::string name) override {
    CO_RETURN_IF_ERROR(engine_.available());
    const auto found = images_.find(name);
    if (found == images_.end()) {
      co_return fail(ErrorCode::not_found, "image ", name, " does not exist");
    }
    if (shown(found->second).in_use) {
      co_return fail(ErrorCode::in_use, "image ", name, " is in use");
    }
    images_.erase(found);
    co_return Result<void>{};
  }
  Task<Result<GcResult>> gc() override {
    CO_RETURN_IF_ERROR(engine_.available());
    GcResult result;
    std::erase_if(images_, [&](const auto& entry) {
      const bool unused = !shown(entry.second).in_use && entry.second.source == "registry";
      if (unused) {
        result.removed.push_back(entry.first);
        result.freed_bytes += entry.second.size_bytes;
      }
      return unused;
    });
    co_return result;
  }

 private:
  [[nodiscard]] ImageInfo shown(ImageInfo image) const {
    for (const auto& [id, record] : engine_.records_) {
      image.in_use = image.in_use || record.spec.containers.front().image == image.name;
    }
    return image;
  }

  FakeEngine& engine_;
  std::map<std::string, ImageInfo> images_;
};

FakeEngine::FakeEngine(EventLoop& loop)
    : loop_(loop),
      change_event_(loop),
      lists_event_(loop),
      images_(std::make_unique<FakeImages>(*this)) {
  images_->add(kPresentImage, "import");
}

FakeEngine::~FakeEngine() = default;

Result<void> FakeEngine::available() const {
  if (!available_) {
    return fail(ErrorCode::unavailable, "the fake engine is switched off");
  }
  return {};
}

void FakeEngine::add_image(const std::string& name) { images_->add(name, "import"); }

void FakeEngine::tell(const Record& record, std::string type, std::string message) {
  changes_.push_back(
      Change{.status = record.status, .type = std::move(type), .message = std::move(message)});
  change_event_.notify();
}

void FakeEngine::finish_start(const std::string& id) {
  Record& record = records_.at(id);
  record.status.image_digest = "sha256:" + std::string(64, 'a');
  record.status.pull_ms = 1;
  tell(record, "pulled", "");
  tell(record, "starting", "");
  record.status.state = State::ready;
  record.status.start_ms = 1;
  record.agent = std::make_shared<FakeAgent>(loop_, record.spec.containers.front());
  tell(record, "", "");
}

void FakeEngine::fail_start(const std::string& id, const std::string& reason,
                            const std::string& message) {
  die(id, reason, message);
}

void FakeEngine::end_agent(Record& record) {
  if (record.agent) {
    record.agent->cancel();
    ended_.push_back(std::move(record.agent));
  }
  idle_.erase(record.status.id);
}

void FakeEngine::die(const std::string& id, const std::string& reason, const std::string& message) {
  Record& record = records_.at(id);
  record.status.state = State::failed;
  record.status.reason = reason;
  record.status.message = message;
  end_agent(record);
  tell(record, reason == "out_of_memory" ? reason : "", message);
}

void FakeEngine::set_available(bool available) {
  if (available && !available_) {
    changes_.clear();
    changes_.push_back(
        fail(ErrorCode::unavailable, "the fake engine was switched off for a while"));
    change_event_.notify();
  }
  available_ = available;
}

void FakeEngine::forget_all() {
  for (auto& [id, record] : records_) {
    end_agent(record);
  }
  records_.clear();
  changes_.clear();
}

void FakeEngine::fail_next_create(base::Error error) { next_create_error_ = std::move(error); }

const model::SandboxSpec* FakeEngine::spec(const std::string& id) const {
  const auto found = records_.find(id);
  return found == records_.end() ? nullptr : &found->second.spec;
}

FakeAgent* FakeEngine::agent(const std::string& id) {
  const auto found = records_.find(id);
  return found == records_.end() ? nullptr : found->second.agent.get();
}

Task<void> FakeEngine::close() {
  forget_all();
  for (const auto& agent : ended_) {
    co_await agent->close();
  }
  ended_.clear();
}

Task<Result<Status>> FakeEngine::create(model::SandboxSpec spec) {
  CO_RETURN_IF_ERROR(available());
  if (next_create_error_) {
    auto error = std::move(*next_create_error_);
    next_create_error_.reset();
    co_return std::unexpected(std::move(error));
  }
  const auto found = records_.find(spec.id);
  if (found != records_.end()) {
    co_return found->second.status;
  }
  if (spec.containers.size() != 1) {
    co_return fail(ErrorCode::not_supported, "the fake engine takes one container");
  }
  const std::string id = spec.id;
  const std::string image = spec.containers.front().image;
  Record& record = records_[id];
  record.spec = std::move(spec);
  record.status = {.id = id, .state = State::starting, .node = "fake"};
  if (images_->has(image) && !record.spec.always_pull) {
    finish_start(id);
  } else {
    tell(record, "pulling", image);
  }
  co_return record.status;
}

Task<Result<Status>> FakeEngine::get(std::string id) {
  CO_RETURN_IF_ERROR(available());
  const auto found = records_.find(id);
  if (found == records_.end()) {
    co_return no_such_sandbox(id);
  }
  co_return found->second.status;
}

Task<Result<std::vector<Status>>> FakeEngine::list() {
  CO_RETURN_IF_ERROR(available());
  std::vector<Status> out;
  out.reserve(records_.size());
  for (const auto& [id, record] : records_) {
    out.push_back(record.status);
  }
  ++lists_held_;
  while (holds_lists_) {
    [[maybe_unused]] const auto wake = co_await lists_event_.wait(net::Deadline::never());
    if (wake == net::EventLoop::Wake::cancelled) {
      break;
    }
  }
  --lists_held_;
  co_return out;
}

void FakeEngine::hold_lists(bool hold) {
  holds_lists_ = hold;
  lists_event_.notify();
}

Task<Result<void>> FakeEngine::remove(std::string id) {
  CO_RETURN_IF_ERROR(available());
  const auto found = records_.find(id);
  if (found != records_.end()) {
    end_agent(found->second);
    records_.erase(found);
  }
  co_return Result<void>{};
}

Task<Result<void>> FakeEngine::set_network(std::string id, model::NetworkPolicy policy) {
  CO_RETURN_IF_ERROR(available());
  const auto found = records_.find(id);
  if (found == records_.end()) {
    co_return no_such_sandbox(id);
  }
  found->second.spec.network = std::move(policy);
  co_return Result<void>{};
}

Task<Result<std::vector<Usage>>> FakeEngine::usage(std::string id) {
  CO_RETURN_IF_ERROR(available());
  if (!id.empty() && !records_.contains(id)) {
    co_return no_such_sandbox(id);
  }
  std::vector<Usage> out;
  for (const auto& [name, record] : records_) {
    if (record.status.state == State::ready && (id.empty() || id == name)) {
      // A tenth of a cpu by the number of times it was asked.
      constexpr int64_t kUsec = 1'000'000;
      out.push_back({.id = name,
                     .cpu_usec = ++usages_ * kUsec,
                     .memory_bytes = 1'000'000,
                     .pids = 1,
                     .storage_bytes = 4096,
                     .rx_bytes = 10,
                     .tx_bytes = 20});
    }
  }
  co_return out;
}

Task<Result<Change>> FakeEngine::next_change() {
  while (changes_.empty()) {
    const auto wake = co_await change_event_.wait(Deadline::never());
    if (wake == EventLoop::Wake::cancelled) {
      co_return std::unexpected(net::wake_error(wake, "wait for a change"));
    }
  }
  auto change = std::move(changes_.front());
  changes_.pop_front();
  co_return change;
}

Task<Result<std::unique_ptr<AgentConnection>>> FakeEngine::connect(std::string id) {
  const auto found = records_.find(id);
  if (found == records_.end() || !found->second.agent) {
    co_return fail(ErrorCode::not_found, "sandbox ", id, " has no agent that listens");
  }
  for (auto idle = idle_.find(id); idle != idle_.end(); idle = idle_.find(id)) {
    auto connection = std::move(idle->second);
    idle_.erase(idle);
    if (is_fresh(*connection)) {
      co_return std::move(connection);
    }
  }
  CO_ASSIGN_OR_RETURN(auto ends, base::sys::make_socket_pair(SOCK_STREAM | SOCK_NONBLOCK));
  ++connections_made_;
  found->second.agent->serve(std::move(ends.first));
  co_return std::make_unique<AgentConnection>(loop_, std::move(ends.second));
}

void FakeEngine::give_back(std::string id, std::unique_ptr<AgentConnection> connection) {
  if (agent(id) != nullptr && is_fresh(*connection)) {
    idle_.emplace(std::move(id), std::move(connection));
  }
}

Task<Result<std::vector<NodeInfo>>> FakeEngine::nodes() {
  CO_RETURN_IF_ERROR(available());
  std::vector<NodeInfo> nodes;
  nodes.push_back({.name = "fake",
                   .version = SANDBOX_VERSION,
                   .millicpus = 2000,
                   .memory_mb = 4096,
                   .storage_mb = 16'384,
                   .sandboxes = static_cast<int64_t>(records_.size())});
  co_return nodes;
}

Task<Result<void>> FakeEngine::check() { co_return available(); }

Images& FakeEngine::images() { return *images_; }

}  // namespace engine
