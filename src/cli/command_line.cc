#include "cli/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <limits>

namespace cli {

using base::ErrorCode;
using base::fail;

namespace {

const std::vector<std::string> kOutputs{"json", "yaml", "table"};
const std::vector<std::string> kShells{"bash", "zsh", "fish"};
const std::vector<std::string> kNetworks{"open", "none"};
const std::vector<std::string> kPulls{"missing", "always"};
const std::vector<std::string> kStates{"queued", "starting", "ready", "failed", "deleting"};

// Where CLI11 puts values while it parses; which of them counts is told by the subcommand.
struct Storage {
  GlobalOptions global;
  std::string output;
  LoginOptions login;
  CreateOptions create;
  ListOptions list;
  GetOptions get;
  RunOptions run;
  ExecOptions exec;
  CopyOptions copy;
  EventsOptions events;
  RemoveOptions remove;
  ImagePullOptions image_pull;
  ImageListOptions image_list;
  ImageRemoveOptions image_remove;
  ImageImportOptions image_import;
  CompletionOptions completion;
  bool terminal = false;
};

std::string full_name(const CLI::App* app) {
  const bool top = app->get_parent() == nullptr || app->get_parent()->get_parent() == nullptr;
  return top ? app->get_name() : base::cat(full_name(app->get_parent()), " ", app->get_name());
}

bool wants_command(std::string_view name) { return name == "exec" || name == "run"; }

// CLI11's help with a usage line that can be copied.
class HelpFormatter final : public CLI::Formatter {
 public:
  std::string make_option_opts(const CLI::Option* option) const override {
    return option->get_positional() ? "" : CLI::Formatter::make_option_opts(option);
  }
  std::string make_usage(const CLI::App* app, std::string) const override {
    const bool root = app->get_parent() == nullptr;
    const std::string name = root ? "" : full_name(app);
    std::string line = base::cat("Usage: sandbox", root ? "" : " ", name);
    if (root || app->get_require_subcommand_min() > 0) {
      return line + " COMMAND [OPTIONS]\n";
    }
    line += " [OPTIONS]";
    for (const CLI::Option* option :
         app->get_options([](const CLI::Option* each) { return each->get_positional(); })) {
      line +=
          base::cat(option->get_required() ? " " : " [", option->get_name(true),
                    option->get_expected_max() > 1 ? "..." : "", option->get_required() ? "" : "]");
    }
    return line + (wants_command(name) ? " -- ARGV...\n" : "\n");
  }
};

template <typename Parse, typename Target>
CLI::Option* add_parsed(CLI::App& app, const std::string& name, Parse parse, Target& target,
                        const std::string& help) {
  const auto store = [parse, &target, name](const std::string& text) {
    const auto value = parse(text);
    if (!value) {
      throw CLI::ValidationError(name, value.error().message);
    }
    target = *value;
  };
  return app.add_option_function<std::string>(name, store, help);
}

void add_global(CLI::App& app, Storage& to) {
  app.add_option("-o,--output", to.output, "Output format: json, yaml or table")
      ->check(CLI::IsMember(kOutputs))
      ->option_text("FORMAT");
  app.add_option("--url", to.global.url, "Gateway URL (else SANDBOX_GATEWAY_URL, else login's)")
      ->option_text("URL");
  app.add_option("--token-file", to.global.token_file,
                 "File with the token, - for standard input (else SANDBOX_GATEWAY_TOKEN)")
      ->option_text("FILE");
}

void add_environment(CLI::App& app, std::vector<std::string>& env,
                     std::vector<std::string>& files) {
  app.add_option("-e,--env", env, "Variable K=V; K alone takes its value from here (repeatable)")
      ->take_all()
      ->expected(1)
      ->option_text("K=V");
  app.add_option("--env-file", files, "File of K=V lines (repeatable)")
      ->take_all()
      ->expected(1)
      ->option_text("FILE");
}

void add_create_options(CLI::App& app, CreateOptions& to) {
  app.add_option("IMAGE", to.image, "OCI reference or name from the local store")->required();
  app.add_option("--cpus", to.cpus, "Cpus, in steps of 0.001 (default 1)")->option_text("N");
  add_parsed(app, "-m,--memory,--memory-mb", parse_megabytes, to.memory_mb,
             "Memory in MB, or with a unit: 512m, 2g (default 512)")
      ->option_text("SIZE");
  add_parsed(app, "--storage,--storage-mb", parse_megabytes, to.storage_mb,
             "Disk in MB, or with a unit (default: the team's)")
      ->option_text("SIZE");
  app.add_option("-l,--label", to.labels, "Label K=V (repeatable)")
      ->take_all()
      ->expected(1)
      ->option_text("K=V");
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
  app.add_option("--network", to.network, "open or none (default: the team's)")
      ->check(CLI::IsMember(kNetworks))
      ->option_text("MODE");
  app.add_option("--pull", to.pull, "missing or always (default missing)")
      ->check(CLI::IsMember(kPulls))
      ->option_text("WHEN");
  app.add_option("--team", to.team, "Team, for members of several")->option_text("TEAM");
}

void add_command_options(CLI::App& app, CommandOptions& to, bool& terminal) {
  add_parsed(app, "--timeout", parse_seconds, to.timeout_sec,
             "Ends the command after that long (exit code 124)")
      ->option_text("TIME");
  app.add_flag_callback(
      "-n,--no-stdin", [&to] { to.read_input = false; }, "Do not read standard input");
  app.add_flag("-t,--tty", terminal, "Not built yet: terminals come with sessions");
  app.footer(
      "The command stands behind --. Exit code: the command's; 124 timed out, 125 an error "
      "of\nsandbox itself, 126 not executable, 127 not found, 130 after Ctrl-C.");
}

void add_wait(CLI::App& app, bool& to, const std::string& until) {
  app.add_flag_callback("--wait", [&to] { to = true; }, base::cat("Wait ", until, " (default)"));
  app.add_flag_callback("--no-wait", [&to] { to = false; }, "Do not wait");
}

void add_lifecycle_commands(CLI::App& root, Storage& to) {
  auto* login = root.add_subcommand("login", "Save a gateway's URL and token (file mode 0600)");
  login->add_option("URL", to.login.url, "Gateway URL");
  login->footer("The token is asked for, or read from --token-file or a piped standard input.");

  auto* create = root.add_subcommand("create", "Create a sandbox; prints its id");
  add_create_options(*create, to.create);
  add_wait(*create, to.create.wait, "until it is ready");

  auto* list = root.add_subcommand("list", "List sandboxes, newest first");
  list->alias("ls");
  list->add_option("--state", to.list.state, "Only in that state")
      ->check(CLI::IsMember(kStates))
      ->option_text("STATE");
  list->add_option("-l,--label", to.list.labels, "Only with that label K=V (repeatable)")
      ->take_all()
      ->expected(1)
      ->option_text("K=V");
  list->add_option("--image", to.list.image, "Only of that image")->option_text("IMAGE");
  list->add_option("--owner", to.list.owner, "Only of that owner")->option_text("NAME");
  list->add_option("--team", to.list.team, "Only of that team")->option_text("TEAM");
  list->add_option("--limit", to.list.limit, "At most that many")
      ->check(CLI::PositiveNumber)
      ->option_text("N");
  list->add_flag("-a,--all", to.list.all, "Deleted ones too");
  list->add_flag("-q,--quiet", to.list.quiet, "Ids only");

  auto* get = root.add_subcommand("get", "Show one sandbox");
  get->add_option("ID", to.get.id, "Sandbox id")->required();
  add_parsed(*get, "--wait", parse_seconds, to.get.wait_sec,
             "Wait up to that long until it is ready or failed")
      ->option_text("TIME");

  auto* events = root.add_subcommand("events", "Show what happened to a sandbox");
  events->add_option("ID", to.events.id, "Sandbox id")->required();
  events->add_flag("-f,--follow", to.events.follow, "Go on until the sandbox is gone");

  auto* remove = root.add_subcommand("rm", "Delete sandboxes; prints the ids of those gone");
  remove->add_option("ID", to.remove.ids, "Sandbox ids")->required();
  add_wait(*remove, to.remove.wait, "until they are gone");
}

void add_work_commands(CLI::App& root, Storage& to) {
  auto* run = root.add_subcommand("run", "Create a sandbox, run a command in it, delete it");
  add_create_options(*run, to.run.create);
  add_command_options(*run, to.run.command, to.terminal);

  auto* exec = root.add_subcommand("exec", "Run a command in a sandbox");
  exec->add_option("ID", to.exec.id, "Sandbox id")->required();
  add_environment(*exec, to.exec.command.env, to.exec.command.env_files);
  exec->add_option("-u,--user", to.exec.command.user, "User (default: the sandbox's)")
      ->option_text("USER");
  exec->add_option("-w,--workdir,--cwd", to.exec.command.cwd,
                   "Working directory (default: the sandbox's)")
      ->option_text("PATH");
  add_command_options(*exec, to.exec.command, to.terminal);

  auto* copy = root.add_subcommand("cp", "Copy a file into or out of a sandbox");
  copy->add_option("SRC", to.copy.source, "Path here, ID:/path there, or - for standard input")
      ->required();
  copy->add_option("DST", to.copy.destination,
                   "Path here, ID:/path there, or - for standard output")
      ->required();
  copy->add_option("--mode", to.copy.mode, "Octal mode of the new file (default: the source's)")
      ->option_text("MODE");
  copy->add_option("-u,--user", to.copy.user, "Acts as that user inside (default: the sandbox's)")
      ->option_text("USER");
  copy->footer(
      "One side is in a sandbox. A path here that contains a colon is written ./like:this.");
}

void add_other_commands(CLI::App& root, Storage& to) {
  auto* image = root.add_subcommand("image", "Images in the gateway's store");
  image->require_subcommand(1);
  auto* pull = image->add_subcommand("pull", "Fetch an image from its registry");
  pull->add_option("REFERENCE", to.image_pull.reference, "OCI reference")->required();
  auto* list = image->add_subcommand("list", "List images");
  list->alias("ls");
  list->add_flag("-q,--quiet", to.image_list.quiet, "Names only");
  auto* remove = image->add_subcommand("rm", "Delete images");
  remove->add_option("NAME", to.image_remove.names, "Image names")->required();
  auto* import = image->add_subcommand("import", "Make an image of a root file system's tar");
  import->add_option("FILE", to.image_import.file, "Tar (plain, gzip, zstd), - for standard input")
      ->required();
  import->add_option("NAME", to.image_import.name, "Name of the image")->required();
  image->add_subcommand("gc", "Delete what no sandbox uses and print what was freed");

  root.add_subcommand("version", "Show the versions of CLI and gateway");
  auto* completion = root.add_subcommand("completion", "Print a completion script");
  completion->add_option("SHELL", to.completion.shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember(kShells));
}

void add_global_everywhere(CLI::App& app, Storage& to) {
  add_global(app, to);
  for (CLI::App* sub : app.get_subcommands([](CLI::App*) { return true; })) {
    add_global_everywhere(*sub, to);
  }
}

void build_grammar(CLI::App& root, Storage& to) {
  root.name("sandbox");
  root.formatter(std::make_shared<HelpFormatter>());
  root.require_subcommand(1);
  root.set_version_flag("--version", "sandbox " SANDBOX_VERSION, "Print the version and exit");
  root.footer("sandbox COMMAND --help says more about each. Start with: sandbox login");
  add_lifecycle_commands(root, to);
  add_work_commands(root, to);
  add_other_commands(root, to);
  add_global_everywhere(root, to);
}

constexpr std::string_view kAbout = "Sandboxes from container images, from the command line";

CLI::App* deepest_parsed(CLI::App& root) {
  CLI::App* app = &root;
  while (!app->get_subcommands().empty()) {
    app = app->get_subcommands().front();
  }
  return app;
}

Invocation take_invocation(const std::string& name, Storage& from) {
  if (name == "login") {
    return from.login;
  }
  if (name == "create") {
    return from.create;
  }
  if (name == "list") {
    return from.list;
  }
  if (name == "get") {
    return from.get;
  }
  if (name == "run") {
    return from.run;
  }
  if (name == "exec") {
    return from.exec;
  }
  if (name == "cp") {
    return from.copy;
  }
  if (name == "events") {
    return from.events;
  }
  if (name == "rm") {
    return from.remove;
  }
  if (name == "image pull") {
    return from.image_pull;
  }
  if (name == "image list") {
    return from.image_list;
  }
  if (name == "image rm") {
    return from.image_remove;
  }
  if (name == "image import") {
    return from.image_import;
  }
  if (name == "image gc") {
    return ImageGcOptions{};
  }
  if (name == "completion") {
    return from.completion;
  }
  return VersionOptions{};
}

OutputFormat parse_output(const std::string& text) {
  if (text == "json") {
    return OutputFormat::json;
  }
  if (text == "yaml") {
    return OutputFormat::yaml;
  }
  return text == "table" ? OutputFormat::table : OutputFormat::automatic;
}

// Puts the words behind "--" where they belong and refuses what is not built.
Result<void> attach_command(const std::string& name, Storage& storage, bool has_separator,
                            const std::vector<std::string>& argv) {
  if (!wants_command(name)) {
    if (has_separator) {
      return base::fail_field("argv", "'sandbox ", name, "' takes no command behind --");
    }
    return {};
  }
  if (storage.terminal) {
    return fail(ErrorCode::not_supported,
                "-t: terminals come with sessions; this version runs commands without one");
  }
  if (argv.empty()) {
    return base::fail_field("argv", "the command is missing: sandbox ", name,
                            name == "exec" ? " ID" : " IMAGE", " -- ls -l");
  }
  (name == "exec" ? storage.exec.command : storage.run.command).argv = argv;
  return {};
}

Result<std::pair<int64_t, std::string>> split_unit(std::string_view text, std::string_view what) {
  size_t digits = 0;
  while (digits < text.size() && text[digits] >= '0' && text[digits] <= '9') {
    ++digits;
  }
  const auto number = base::parse_number<int64_t>(text.substr(0, digits));
  if (!number || *number <= 0) {
    return base::fail_field(what, "'", text, "' is not a ", what);
  }
  return std::pair{*number, base::lower(text.substr(digits))};
}

Result<int64_t> scaled(int64_t number, int64_t factor, std::string_view text) {
  if (number > std::numeric_limits<int64_t>::max() / factor) {
    return base::fail_field("number", "'", text, "' is too large");
  }
  return number * factor;
}

std::string one_line(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  return text;
}

OptionInfo describe_option(const CLI::Option& option) {
  OptionInfo info{.description = option.get_description(),
                  .takes_value = option.get_type_size() > 0};
  for (const auto& name : option.get_lnames()) {
    info.names.push_back("--" + name);
  }
  for (const auto& name : option.get_snames()) {
    info.names.push_back("-" + name);
  }
  const std::string first = info.names.empty() ? "" : info.names.front();
  if (first == "--output") {
    info.choices = kOutputs;
  }
  if (first == "--network") {
    info.choices = kNetworks;
  }
  if (first == "--pull") {
    info.choices = kPulls;
  }
  if (first == "--state") {
    info.choices = kStates;
  }
  return info;
}

void describe_into(const CLI::App& app, std::vector<CommandInfo>& out) {
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    CommandInfo info{.name = full_name(sub), .description = sub->get_description()};
    for (const CLI::Option* option : sub->get_options([](const CLI::Option*) { return true; })) {
      if (option->nonpositional()) {
        info.options.push_back(describe_option(*option));
      }
      info.takes_id = info.takes_id || option->get_name(true) == "ID";
    }
    out.push_back(std::move(info));
    describe_into(*sub, out);
  }
}

}  // namespace

Result<ParsedCommandLine> parse_command_line(const std::vector<std::string>& words) {
  Storage storage;
  CLI::App root{std::string(kAbout)};
  build_grammar(root, storage);
  if (words.empty()) {
    return ParsedCommandLine{.invocation = ShowText{root.help()}};
  }
  // What stands behind the first "--" is the command's own, whatever it looks like.
  const auto separator = std::ranges::find(words, "--");
  const bool has_separator = separator != words.end();
  std::vector<std::string> reversed(words.begin(), separator);
  std::ranges::reverse(reversed);  // CLI11 wants the last word first
  std::vector<std::string> argv(has_separator ? separator + 1 : separator, words.end());
  try {
    root.parse(reversed);
  } catch (const CLI::CallForVersion& version) {
    return ParsedCommandLine{.invocation = ShowText{base::cat(version.what(), "\n")}};
  } catch (const CLI::CallForHelp&) {
    return ParsedCommandLine{.invocation = ShowText{deepest_parsed(root)->help()}};
  } catch (const CLI::ParseError& error) {
    const std::string name = full_name(deepest_parsed(root));
    const bool extra = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
    return base::fail_field("arguments", one_line(error.what()),
                            wants_command(name) && extra ? " (the command stands behind --)" : "");
  }
  const std::string name = full_name(deepest_parsed(root));
  RETURN_IF_ERROR(attach_command(name, storage, has_separator, argv));
  storage.global.output = parse_output(storage.output);
  return ParsedCommandLine{.global = storage.global, .invocation = take_invocation(name, storage)};
}

Result<int64_t> parse_megabytes(std::string_view text) {
  ASSIGN_OR_RETURN(const auto parts, split_unit(text, "size"));
  const auto& [number, unit] = parts;
  if (unit.empty() || unit == "m" || unit == "mb" || unit == "mib") {
    return number;
  }
  if (unit == "g" || unit == "gb" || unit == "gib") {
    return scaled(number, 1024, text);
  }
  if (unit == "t" || unit == "tb" || unit == "tib") {
    return scaled(number, 1024 * 1024, text);
  }
  return base::fail_field("size", "'", text, "' is not a size: write 512, 512m or 2g");
}

Result<int64_t> parse_seconds(std::string_view text) {
  ASSIGN_OR_RETURN(const auto parts, split_unit(text, "time"));
  const auto& [number, unit] = parts;
  if (unit.empty() || unit == "s") {
    return number;
  }
  if (unit == "m" || unit == "min") {
    return scaled(number, 60, text);
  }
  if (unit == "h") {
    return scaled(number, 60 * 60, text);
  }
  if (unit == "d") {
    return scaled(number, 24 * 60 * 60, text);
  }
  return base::fail_field("time", "'", text, "' is not a time: write 90, 90s, 30m, 2h or 1d");
}

std::vector<CommandInfo> describe_commands() {
  Storage storage;
  CLI::App root{std::string(kAbout)};
  build_grammar(root, storage);
  std::vector<CommandInfo> out;
  describe_into(root, out);
  return out;
}

}  // namespace cli
