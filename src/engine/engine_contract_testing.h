// EngineContract: what every engine must do, whatever stands behind it. A test program of an engine
// derives Subject and instantiates the suite:
//   INSTANTIATE_TEST_SUITE_P(Fake, EngineContract, testing::Values(&make_fake_subject));
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "engine/engine.h"
#include "net/task_group.h"

namespace engine {

// Runs the loop until the task has ended; a task that does not end within a minute fails the test
// by ending the program.
void run_task(net::EventLoop& loop, net::Task<void> task);

// An engine under test and the hands that its other side needs. Made anew for each test.
class ContractSubject {
 public:
  virtual ~ContractSubject() = default;
  virtual net::EventLoop& loop() = 0;
  virtual Engine& engine() = 0;
  // An image that is present and has `true`, `echo` and `sleep`.
  virtual std::string image() = 0;
  // An image that no registry has; `let_pull_fail` is called after create() answered `starting`.
  virtual std::string absent_image() = 0;
  virtual void let_pull_fail(const std::string& id) = 0;
  // Makes PID 1 of that sandbox die of itself. False: this engine has no way to.
  virtual bool kill_agent(const std::string& id) = 0;
  // Takes the other side away and brings it back; sandboxes stay. False: no way to.
  virtual bool interrupt() = 0;
  // A tar of a root file system to import.
  virtual base::Fd tar() = 0;
  virtual net::Task<void> close() = 0;
};

// nullptr: cannot be tested on this machine, with the reason written to `why`.
using MakeContractSubject = std::unique_ptr<ContractSubject> (*)(std::string& why);

class EngineContract : public testing::TestWithParam<MakeContractSubject> {
 protected:
  EngineContract();
  ~EngineContract() override;
  void SetUp() override;
  void TearDown() override;

  void run(net::Task<void> task);
  ContractSubject& subject() { return *subject_; }

 private:
  std::unique_ptr<ContractSubject> subject_;
  std::string why_;
};

}  // namespace engine
