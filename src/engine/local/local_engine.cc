#include "engine/local/local_engine.h"

#include "engine/local/node_messages.h"

namespace engine {
namespace {

using net::Task;
using wire::json::Object;

// More than a machine holds; a node that names more is broken.
constexpr size_t kUsagesMax = 100'000;
constexpr base::Milliseconds kAnswerPatience{30'000};
// A create answers when the sandbox is accepted (and started, where the image is there); on a
// machine that starts hundreds at once each waits for the ones before it.
constexpr base::Milliseconds kCreatePatience{120'000};
// A remove answers when all is gone; killing what hangs in the kernel takes its time.
constexpr base::Milliseconds kRemovePatience{120'000};

}  // namespace

LocalEngine::LocalEngine(net::EventLoop& loop, LocalEngineOptions options, base::Log& log)
    : node_(loop, std::move(options.node_socket), log),
      agents_(loop, std::move(options.sandboxes_folder)),
      images_(node_),
      group_(loop) {}

LocalEngine::~LocalEngine() = default;

void LocalEngine::start() {
  group_.spawn(node_.run());
  group_.spawn(agents_.run());
}

Task<void> LocalEngine::close() {
  group_.cancel();
  co_await group_.join();
}

Task<Result<Status>> LocalEngine::create(model::SandboxSpec spec) {
  Object fields{{"spec", spec_to_json(spec)}};
  CO_ASSIGN_OR_RETURN(const Object answer,
                      co_await node_.call("create", std::move(fields), kCreatePatience));
  co_return parse_status(answer, node_.node_name());
}

Task<Result<Status>> LocalEngine::get(std::string id) {
  Object fields{{"id", id}};
  CO_ASSIGN_OR_RETURN(const Object answer,
                      co_await node_.call("get", std::move(fields), kAnswerPatience));
  co_return parse_status(answer, node_.node_name());
}

Task<Result<std::vector<Status>>> LocalEngine::list() {
  CO_ASSIGN_OR_RETURN(const Object answer, co_await node_.call("list", Object{}, kAnswerPatience));
  co_return parse_statuses(answer, node_.node_name());
}

Task<Result<void>> LocalEngine::remove(std::string id) {
  agents_.forget(id);
  Object fields{{"id", id}};
  CO_RETURN_IF_ERROR(co_await node_.call("remove", std::move(fields), kRemovePatience));
  agents_.forget(id);
  co_return Result<void>{};
}

Task<Result<void>> LocalEngine::set_network(std::string id, model::NetworkPolicy policy) {
  Object fields{{"id", id}, {"network", model::to_text(policy)}};
  CO_RETURN_IF_ERROR(co_await node_.call("set_network", std::move(fields), kAnswerPatience));
  co_return Result<void>{};
}

Task<Result<std::vector<Usage>>> LocalEngine::usage(std::string id) {
  if (!id.empty()) {
    Object fields{{"id", id}};
    CO_ASSIGN_OR_RETURN(const Object answer,
                        co_await node_.call("stats", std::move(fields), kAnswerPatience));
    co_return parse_usages(answer);
  }
  std::vector<Usage> all;
  for (std::string after;;) {
    Object fields{{"after", after}};
    CO_ASSIGN_OR_RETURN(const Object answer,
                        co_await node_.call("stats", std::move(fields), kAnswerPatience));
    CO_ASSIGN_OR_RETURN(const auto page, parse_usages(answer));
    if (page.empty() || page.back().id <= after || all.size() > kUsagesMax) {
      co_return all;
    }
    after = page.back().id;
    all.insert(all.end(), page.begin(), page.end());
  }
}

Task<Result<Change>> LocalEngine::next_change() {
  auto change = co_await node_.next_change();
  if (change && (change->status.state == State::failed || change->status.state == State::gone)) {
    agents_.forget(change->status.id);
  }
  co_return change;
}

Task<Result<std::unique_ptr<AgentConnection>>> LocalEngine::connect(std::string id) {
  return agents_.connect(std::move(id));
}

void LocalEngine::give_back(std::string id, std::unique_ptr<AgentConnection> connection) {
  agents_.give_back(id, std::move(connection));
}

Task<Result<std::vector<NodeInfo>>> LocalEngine::nodes() {
  CO_ASSIGN_OR_RETURN(const Object answer, co_await node_.call("hello", Object{}, kAnswerPatience));
  CO_ASSIGN_OR_RETURN(NodeInfo info, parse_node(answer));
  std::vector<NodeInfo> nodes;
  nodes.push_back(std::move(info));
  co_return nodes;
}

Task<Result<void>> LocalEngine::check() {
  CO_RETURN_IF_ERROR(node_.node());
  co_return Result<void>{};
}

Task<Result<base::Fd>> LocalEngine::inner_listener() {
  return node_.call_for_descriptor("gateway_socket", kAnswerPatience);
}

Images& LocalEngine::images() { return images_; }

}  // namespace engine
