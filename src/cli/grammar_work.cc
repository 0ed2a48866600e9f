// Commands that work in a sandbox: run, exec, shell, cp, and what tells how it is doing.
#include <algorithm>

#include "cli/command_line.h"
#include "cli/grammar_options.h"

namespace cli {

namespace {

constexpr auto kExitCodes =
    "The command stands behind --. Exit code: the command's; 124 timed out, 125 an error "
    "of\nsandbox itself, 126 not executable, 127 not found, 130 after Ctrl-C, which cancels it.";
constexpr auto kEscapes =
    "~. at the start of a line leaves, ~~ is a ~. The shell goes on and is found again by its "
    "name;\nits exit code is this program's.";

void add_observing_commands(CLI::App& root, Storage& to) {
  auto* logs = add_command(root, to, to.logs, "logs", "Show what the image's entrypoint wrote");
  add_id(*logs, to.logs.id);
  logs->add_flag("-f,--follow", to.logs.follow, "Go on until it ends");
  logs->add_option("--container", to.logs.container, "Of that container (default: main)")
      ->option_text("NAME");
  auto* metrics = add_command(root, to, to.metrics, "metrics", "Show what a sandbox uses");
  add_id(*metrics, to.metrics.id);
  auto* network =
      add_command(root, to, to.network, "network", "Show or change where a sandbox may connect to");
  add_id(*network, to.network.id);
  network->add_option("MODE", to.network.mode, "open, none or allow; left out: show")
      ->check(CLI::IsMember(kNetworks));
  add_allow(*network, to.network.allow);
  network->footer("A change replaces the whole list, and cuts what it does not allow any more.");
}

}  // namespace

void add_work_commands(CLI::App& root, Storage& to) {
  auto* run = add_command(root, to, to.run, "run", "Create a sandbox, run a command, delete it");
  add_create_options(*run, to.run.create);
  add_command_options(*run, to.run.command);
  run->footer(kExitCodes);

  auto* exec = add_command(root, to, to.exec, "exec", "Run a command in a sandbox");
  add_target(*exec, to.exec.sandbox);
  add_command_place(*exec, to.exec.command);
  add_command_options(*exec, to.exec.command);
  exec->footer(kExitCodes);

  auto* shell = add_command(root, to, to.shell, "shell", "Open a login shell in a sandbox");
  add_target(*shell, to.shell.sandbox);
  shell->add_option("--session", to.shell.session, "Name of the shell (default terminal)")
      ->option_text("NAME");
  shell->footer(kEscapes);

  auto* forward = add_command(root, to, to.forward, "forward",
                              "Reach ports in a sandbox by ports of this machine");
  add_target(*forward, to.forward.sandbox);
  const auto add_port = [&to](const std::string& text) {
    const auto pair = parse_port_pair(text);
    if (!pair) {
      throw CLI::ValidationError("PORT", pair.error().message);
    }
    to.forward.ports.push_back(*pair);
  };
  forward
      ->add_option_function<std::vector<std::string>>(
          "PORT",
          [add_port](const std::vector<std::string>& texts) {
            std::ranges::for_each(texts, add_port);
          },
          "[LOCAL:]PORT, :PORT for a free local one; several")
      ->required();
  forward
      ->add_option("--host", to.forward.host,
                   "Reached from within the sandbox (default: the sandbox itself)")
      ->option_text("HOST");
  forward->footer(
      "Listens on 127.0.0.1 until Ctrl-C, and prints where. Connections end with the sandbox.");

  auto* copy = add_command(root, to, to.copy, "cp", "Copy files into or out of a sandbox");
  copy->add_option("SRC", to.copy.source, "Path here, ID:/path there, or - for standard input")
      ->required();
  copy->add_option("DST", to.copy.destination,
                   "Path here, ID:/path there, or - for standard output")
      ->required();
  copy->add_flag("-r,--recursive", to.copy.recursive, "Copy a folder with all that is in it");
  copy->add_flag_callback(
      "--compress", [&to] { to.copy.compress = true; },
      "Compress a folder on its way (default: unless the gateway is on this machine)");
  copy->add_flag_callback(
      "--no-compress", [&to] { to.copy.compress = false; }, "Send a folder as it is");
  copy->add_option("--mode", to.copy.mode, "Octal mode of the new file (default: the source's)")
      ->option_text("MODE");
  add_user(*copy, to.copy.user);
  copy->add_option("--container", to.copy.container,
                   "Of that service of a compose file (default: main)")
      ->option_text("NAME");
  copy->footer(
      "One side is in a sandbox. A path here that contains a colon is written ./like:this.");
  add_observing_commands(root, to);
  add_audit_commands(root, to);
}

}  // namespace cli
