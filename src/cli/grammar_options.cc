#include "cli/grammar_options.h"

#include "cli/command_line.h"

namespace cli {

namespace {

void add_global(CLI::App& app, Storage& to) {
  app.add_option("-o,--output", to.output, "Output format: json, yaml or table")
      ->check(CLI::IsMember(kOutputs))
      ->option_text("FORMAT");
  app.add_option("--url", to.global.connection.url,
                 "Gateway URL (else SANDBOX_GATEWAY_URL, else login's)")
      ->option_text("URL");
  app.add_option("--token-file", to.global.connection.token_file,
                 "File with the token, - for standard input (else SANDBOX_GATEWAY_TOKEN)")
      ->option_text("FILE");
  app.add_option("--ca-file", to.global.connection.ca_file,
                 "Authorities (PEM) that a gateway's certificate may be of (else "
                 "SANDBOX_GATEWAY_CA_FILE, else the system's)")
      ->option_text("FILE");
  app.add_flag("--insecure", to.global.insecure,
               "Takes any certificate: whoever answers gets the token");
}

}  // namespace

CLI::Validator whole_from(int64_t least) {
  const auto check = [least](const std::string& text) {
    const auto number = base::parse_number<int64_t>(text);
    return number && *number >= least
               ? std::string()
               : base::cat("'", text, "' is not a whole number from ", least, " on");
  };
  return {check, ""};
}

CLI::Option* add_repeated(CLI::App& app, const std::string& names, std::vector<std::string>& to,
                          const std::string& help, const std::string& value) {
  return app.add_option(names, to, help)
      ->take_all()
      ->expected(1)
      ->allow_extra_args(false)  // one value each time: what follows may be an argument
      ->option_text(value);
}

void add_id(CLI::App& app, std::string& to) { app.add_option("ID", to, "Sandbox id")->required(); }

void add_target(CLI::App& app, SandboxTarget& to) {
  add_id(app, to.id);
  app.add_option("--container", to.container, "Of that service of a compose file (default: main)")
      ->option_text("NAME");
}

void add_user(CLI::App& app, std::string& to) {
  app.add_option("-u,--user", to, "Acts as that user inside (default: the sandbox's)")
      ->option_text("USER");
}

void add_environment(CLI::App& app, std::vector<std::string>& env,
                     std::vector<std::string>& files) {
  add_repeated(app, "-e,--env", env, "Variable K=V; K alone takes its value from here (repeatable)",
               "K=V");
  add_repeated(app, "--env-file", files, "File of K=V lines (repeatable)", "FILE");
}

void add_allow(CLI::App& app, std::vector<std::string>& to) {
  add_repeated(app, "--allow", to,
               "Only connections to that: NAME, *.NAME, IPv4 address or range (repeatable)",
               "HOST");
}

void add_create_options(CLI::App& app, CreateOptions& to) {
  app.add_option("IMAGE", to.image, "OCI reference or name from the local store");
  add_repeated(app, "--compose", to.compose,
               "Compose file instead of an image; later ones change earlier ones (repeatable)",
               "FILE");
  app.add_option("--cpus", to.cpus, "Cpus, in steps of 0.001 (default 1)")->option_text("N");
  add_parsed(app, "-m,--memory,--memory-mb", parse_megabytes, to.memory_mb,
             "Memory in MB, or with a unit: 512m, 2g (default 512)")
      ->option_text("SIZE");
  add_parsed(app, "--storage,--storage-mb", parse_megabytes, to.storage_mb,
             "Disk in MB, or with a unit (default: the team's)")
      ->option_text("SIZE");
  add_repeated(app, "-l,--label", to.labels, "Label K=V (repeatable)", "K=V");
  add_environment(app, to.env, to.env_files);
  app.add_option("-u,--user", to.user, "User of commands (default: the image's)")
      ->option_text("USER");
  app.add_option("-w,--workdir", to.workdir, "Working directory (default: the image's)")
      ->option_text("PATH");
  add_parsed(app, "--lease", parse_seconds, to.lease_sec,
             "Deleted after that long without a request: 90s, 30m, 2h")
      ->option_text("TIME");
  add_parsed(app, "--max-lifetime", parse_seconds, to.max_lifetime_sec,
             "Deleted after that long in any case")
      ->option_text("TIME");
  app.add_option("--network", to.network, "open, none or allow (default: the team's)")
      ->check(CLI::IsMember(kNetworks))
      ->option_text("MODE");
  add_allow(app, to.allow);
  app.add_option("--pull", to.pull, "missing or always (default missing)")
      ->check(CLI::IsMember(kPulls))
      ->option_text("WHEN");
  app.add_option("--team", to.team, "Team, for members of several")->option_text("TEAM");
  app.parse_complete_callback([&to] {
    if (to.image.empty() && to.compose.empty()) {
      throw CLI::RequiredError("either an IMAGE or --compose FILE");
    }
    if (!to.image.empty() && !to.compose.empty()) {
      throw CLI::ExcludesError("IMAGE", "--compose");
    }
  });
}

void add_command_place(CLI::App& app, CommandOptions& to) {
  add_environment(app, to.env, to.env_files);
  app.add_option("-u,--user", to.user, "User (default: the sandbox's)")->option_text("USER");
  app.add_option("-w,--workdir,--cwd", to.cwd, "Working directory (default: the sandbox's)")
      ->option_text("PATH");
}

void add_command_options(CLI::App& app, CommandOptions& to) {
  add_parsed(app, "--timeout", parse_seconds, to.timeout_sec,
             "Ends the command after that long (exit code 124)")
      ->option_text("TIME");
  app.add_flag("-t,--tty", to.terminal, "Give the command a terminal");
  app.add_flag("-i,--interactive", to.interactive, "Pass standard input even if it is a terminal");
  app.add_flag_callback(
      "-n,--no-stdin", [&to] { to.read_input = false; }, "Do not read standard input");
}

void add_wait(CLI::App& app, bool& to, const std::string& until) {
  app.add_flag_callback("--wait", [&to] { to = true; }, base::cat("Wait ", until, " (default)"));
  app.add_flag_callback("--no-wait", [&to] { to = false; }, "Do not wait");
}

void add_global_everywhere(CLI::App& app, Storage& to) {
  add_global(app, to);
  for (CLI::App* sub : app.get_subcommands([](CLI::App*) { return true; })) {
    add_global_everywhere(*sub, to);
  }
}

}  // namespace cli
