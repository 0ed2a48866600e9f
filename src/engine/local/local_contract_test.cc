// The engine contract over a real node: starts one for the whole program.
#include <unistd.h>

#include "engine/engine_contract_testing.h"
#include "engine/local/local_engine.h"
#include "engine/local/node_process_testing.h"

namespace engine {
namespace {

using net::Task;

constexpr const char* kImage = "contract-busybox:latest";

struct SharedNode {
  std::string why;
  std::unique_ptr<NodeProcess> process = NodeProcess::start(why);
};

SharedNode& shared_node() {
  static SharedNode node;
  return node;
}

class LocalSubject final : public ContractSubject {
 public:
  explicit LocalSubject(NodeProcess& node) : node_(node) {
    engine_.start();
    run_task(loop_, prepare(engine_));
  }
  net::EventLoop& loop() override { return loop_; }
  Engine& engine() override { return engine_; }
  std::string image() override { return kImage; }
  // Nothing listens there.
  std::string absent_image() override { return "127.0.0.1:9/absent/image:latest"; }
  void let_pull_fail(const std::string& /*id*/) override {}
  bool kill_agent(const std::string& /*id*/) override { return node_.kill_agents(); }
  bool interrupt() override { return node_.restart(); }
  base::Fd tar() override { return NodeProcess::busybox_tar(); }
  Task<void> close() override { return engine_.close(); }

 private:
  static Task<void> prepare(LocalEngine& engine) {
    const auto present = co_await engine.images().get(kImage);
    if (!present) {
      const auto imported = co_await engine.images().import(kImage, NodeProcess::busybox_tar());
      EXPECT_TRUE(imported.has_value()) << (imported ? "" : imported.error().message);
    }
    // What a test before this one may have left.
    const auto list = co_await engine.list();
    for (const Status& status : list.value_or(std::vector<Status>{})) {
      (void)co_await engine.remove(status.id);
    }
  }

  NodeProcess& node_;
  net::EventLoop loop_;
  base::Log log_{STDERR_FILENO, base::LogLevel::error};
  LocalEngine engine_{
      loop_, {.node_socket = node_.socket(), .sandboxes_folder = node_.sandboxes()}, log_};
};

std::unique_ptr<ContractSubject> make_local_subject(std::string& why) {
  SharedNode& node = shared_node();
  if (node.process == nullptr) {
    why = node.why;
    return nullptr;
  }
  return std::make_unique<LocalSubject>(*node.process);
}

INSTANTIATE_TEST_SUITE_P(Local, EngineContract, testing::Values(&make_local_subject));

}  // namespace
}  // namespace engine
