// The program `sandbox`: a client of the gateway's public API.
#include <unistd.h>

#include "base/standard_streams.h"
#include "cli/application.h"

int main(int argc, char** argv) {
  base::hold_standard_streams();
  const std::vector<std::string> words(argv + (argc > 0 ? 1 : 0), argv + argc);
  auto interrupt = cli::Interrupt::open();
  if (!interrupt) {
    cli::Interrupt none;
    cli::Console(STDOUT_FILENO, STDERR_FILENO, none).note(cli::describe_error(interrupt.error()));
    return 125;
  }
  cli::Console console(STDOUT_FILENO, STDERR_FILENO, *interrupt);
  const base::RealClock clock;
  base::KernelRandom random;
  return cli::run_application(words, cli::read_environment(), console, *interrupt, clock, random);
}
