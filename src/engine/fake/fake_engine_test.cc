#include <fcntl.h>

#include "base/sys.h"
#include "engine/engine_contract_testing.h"
#include "engine/fake/fake_engine_testing.h"

namespace engine {
namespace {

using net::Task;

class FakeSubject final : public ContractSubject {
 public:
  net::EventLoop& loop() override { return loop_; }
  Engine& engine() override { return engine_; }
  std::string image() override { return "demo:latest"; }
  std::string absent_image() override { return "absent:latest"; }
  void let_pull_fail(const std::string& id) override {
    engine_.fail_start(id, "image_not_found", "no registry has it");
  }
  bool kill_agent(const std::string& id) override {
    engine_.die(id, "agent_lost", "PID 1 ended");
    return true;
  }
  bool interrupt() override {
    engine_.set_available(false);
    engine_.set_available(true);
    return true;
  }
  base::Fd tar() override { return *base::sys::open("/dev/null", O_RDONLY); }
  Task<void> close() override { return engine_.close(); }

 private:
  net::EventLoop loop_;
  FakeEngine engine_{loop_};
};

std::unique_ptr<ContractSubject> make_fake_subject(std::string& /*why*/) {
  return std::make_unique<FakeSubject>();
}

INSTANTIATE_TEST_SUITE_P(Fake, EngineContract, testing::Values(&make_fake_subject));

Task<void> pool_channels(FakeEngine& engine) {
  const auto created = co_await engine.create(
      {.id = "s", .containers = {{.image = "demo:latest"}}, .resources = {}});
  EXPECT_TRUE(created.has_value());
  for (int i = 0; i < 3; ++i) {
    auto connection = co_await engine.connect("s");
    EXPECT_TRUE(connection.has_value());
    engine.give_back("s", std::move(*connection));
  }
  EXPECT_EQ(engine.connections_made(), 1U);
  EXPECT_EQ(engine.idle_connections(), 1U);
  co_await engine.close();
}

TEST(FakeEngine, gives_a_channel_out_again) {
  net::EventLoop loop;
  FakeEngine engine(loop);
  run_task(loop, pool_channels(engine));
}

}  // namespace
}  // namespace engine
