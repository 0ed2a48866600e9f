// The whole program for tests: words in; exit code, standard output and standard error out.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/sys.h"
#include "cli/application.h"
#include "cli/scripted_server_testing.h"

namespace cli {

inline constexpr size_t kOutputBytesMax = 1UL << 20U;
inline constexpr std::string_view kReady = R"({"id":"sbx-1","state":"ready","image":"debian"})";
inline constexpr std::string_view kFailed =
    R"({"id":"sbx-1","state":"failed","reason":"image_not_found","message":"no\u001b[2J image"})";

// No pauses and no standard input.
class ApplicationFixture : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/sandbox-cli-test-XXXXXX";
    folder_ = ::mkdtemp(name);
    input_before_ = base::Fd(::dup(STDIN_FILENO));
    use_input("");
  }
  void TearDown() override {
    ::dup2(input_before_.get(), STDIN_FILENO);
    (void)base::sys::remove_tree(folder_);
  }

  void use_input(const std::string& bytes) {
    const auto memory = base::sys::make_sealed_memory("input", bytes);
    ASSERT_TRUE(memory);
    ::dup2(memory->get(), STDIN_FILENO);
    ::lseek(STDIN_FILENO, 0, SEEK_SET);
  }

  int run(ScriptedServer& server, const std::vector<std::string>& words) {
    Environment environment{.home = folder_, .url = server.url(), .token = "token-1"};
    return run(environment, words);
  }

  int run(const Environment& environment, const std::vector<std::string>& words) {
    const std::string out_path = folder_ + "/out";
    const std::string error_path = folder_ + "/error";
    {
      const auto out = base::sys::open(out_path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
      const auto error = base::sys::open(error_path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
      Interrupt interrupt;
      Console console(out->get(), error->get(), interrupt);
      base::KernelRandom random;
      exit_code_ = run_application(words, environment, console, interrupt, *clock_, random);
    }
    out_ = base::sys::read_file(out_path, kOutputBytesMax).value_or("");
    error_ = base::sys::read_file(error_path, kOutputBytesMax).value_or("");
    return exit_code_;
  }

  base::FakeClock fake_clock_;
  const base::RealClock real_clock_;
  const base::Clock* clock_ = &fake_clock_;  // real_clock_ where pauses have to pass
  std::string folder_;
  base::Fd input_before_;
  int exit_code_ = 0;
  std::string out_;
  std::string error_;
};

}  // namespace cli
