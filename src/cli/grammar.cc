#include "cli/grammar.h"

#include <algorithm>

#include "cli/command_line.h"
#include "cli/grammar_options.h"

namespace cli {

const std::vector<std::string> kOutputs{"json", "yaml", "table"};
const std::vector<std::string> kShells{"bash", "zsh", "fish"};
const std::vector<std::string> kNetworks{"open", "none", "allow"};
const std::vector<std::string> kPulls{"missing", "always"};
const std::vector<std::string> kStates{"queued", "starting", "ready", "failed", "deleting"};
const std::vector<std::string> kStreams{"both", "stdout", "stderr"};

namespace {

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
    return line + (word_before_command(name).empty() ? "\n" : " -- ARGV...\n");
  }
};

}  // namespace

std::string full_name(const CLI::App* app) {
  const bool top = app->get_parent() == nullptr || app->get_parent()->get_parent() == nullptr;
  return top ? app->get_name() : base::cat(full_name(app->get_parent()), " ", app->get_name());
}

std::string_view word_before_command(std::string_view name) {
  if (name == "run") {
    return "IMAGE";
  }
  return name == "exec" || name == "sessions start" ? "ID" : "";
}

void add_lifecycle_commands(CLI::App& root, Storage& to) {
  auto* login =
      add_command(root, to, to.login, "login", "Save a gateway's URL and token (file mode 0600)");
  login->add_option("URL", to.login.url, "Gateway URL");
  login->add_flag("--oidc", to.login.oidc, "Sign in with the gateway's issuer, in a browser");
  login->footer("The token is asked for, or read from --token-file or a piped standard input.");

  auto* create = add_command(root, to, to.create, "create", "Create a sandbox; prints its id");
  add_create_options(*create, to.create);
  add_wait(*create, to.create.wait, "until it is ready");

  auto* list = add_command(root, to, to.list, "list", "List sandboxes, newest first");
  list->alias("ls");
  list->add_option("--state", to.list.state, "Only in that state")
      ->check(CLI::IsMember(kStates))
      ->option_text("STATE");
  add_repeated(*list, "-l,--label", to.list.labels, "Only with that label K=V (repeatable)", "K=V");
  list->add_option("--image", to.list.image, "Only of that image")->option_text("IMAGE");
  list->add_option("--owner", to.list.owner, "Only of that owner")->option_text("NAME");
  list->add_option("--team", to.list.team, "Only of that team")->option_text("TEAM");
  list->add_option("--limit", to.list.limit, "At most that many")
      ->check(whole_from(1))
      ->option_text("N");
  list->add_flag("-a,--all", to.list.all, "Deleted ones too");
  list->add_flag("--all-teams", to.list.all_teams, "Of all teams");
  list->add_flag("-q,--quiet", to.list.quiet, "Ids only");

  auto* get = add_command(root, to, to.get, "get", "Show one sandbox");
  add_id(*get, to.get.id);
  add_parsed(*get, "--wait", parse_seconds, to.get.wait_sec,
             "Wait up to that long until it is ready or failed")
      ->option_text("TIME");

  auto* events = add_command(root, to, to.events, "events", "Show what happened to a sandbox");
  add_id(*events, to.events.id);
  events->add_flag("-f,--follow", to.events.follow, "Go on until the sandbox is gone");

  auto* remove =
      add_command(root, to, to.remove, "rm", "Delete sandboxes; prints the ids of those gone");
  remove->add_option("ID", to.remove.ids, "Sandbox ids")->required();
  add_wait(*remove, to.remove.wait, "until they are gone");
}

void add_other_commands(CLI::App& root, Storage& to) {
  auto* image = root.add_subcommand("image", "Images in the gateway's store");
  image->require_subcommand(1);
  auto* pull = add_command(*image, to, to.image_pull, "pull", "Fetch an image from its registry");
  pull->add_option("REFERENCE", to.image_pull.reference, "OCI reference")->required();
  auto* list = add_command(*image, to, to.image_list, "list", "List images");
  list->alias("ls");
  list->add_flag("-q,--quiet", to.image_list.quiet, "Names only");
  auto* remove = add_command(*image, to, to.image_remove, "rm", "Delete images");
  remove->add_option("NAME", to.image_remove.names, "Image names")->required();
  auto* import = add_command(*image, to, to.image_import, "import",
                             "Make an image of a root file system's tar or an OCI archive");
  import->add_option("FILE", to.image_import.file, "Tar (plain, gzip, zstd), - for standard input")
      ->required();
  import->add_option("NAME", to.image_import.name, "Name of the image")->required();
  auto* build = add_command(*image, to, to.image_build_default, "build-default",
                            "Make the default image from Debian packages and import it");
  build->add_flag("--small", to.image_build_default.small, "Without compilers, Node and pip");
  build->add_option("--base", to.image_build_default.base, "Debian release (default: this host's)")
      ->option_text("NAME");
  build->add_option("--name", to.image_build_default.name, "Name of the image (default: agent)")
      ->option_text("NAME");
  build->add_flag("--rebuild", to.image_build_default.rebuild, "Not the archive made before");
  build->add_option("--cache", to.image_build_default.cache, "Folder the archives are kept in")
      ->option_text("DIR");
  build->add_option("--recipe", to.image_build_default.recipe, "Another images/agent/build.py")
      ->option_text("FILE");
  add_command(*image, to, to.image_gc, "gc",
              "Delete what no sandbox uses and print what was freed");

  auto* made = add_command(root, to, to.build, "build",
                           "Build an image from a folder with a Dockerfile; prints its name");
  made->add_option("PATH", to.build.folder,
                   "Folder, or a Dockerfile alone, or - for a tar from standard input")
      ->required();
  made->add_option("-f,--file", to.build.dockerfile, "Dockerfile within the folder")
      ->option_text("PATH");
  made->add_option("--target", to.build.target, "Stage to build (default: the last)")
      ->option_text("NAME");
  made->add_option("--build-arg", to.build.arguments, "Build argument, as often as needed")
      ->option_text("NAME=VALUE");
  made->add_option("--secret", to.build.secrets,
                   "What RUN --mount=type=secret,id=ID mounts, as often as needed")
      ->option_text("id=ID,src=FILE|env=NAME");
  made->add_option("--ssh", to.build.keys,
                   "Private key that RUN --mount=type=ssh may sign with, as often as needed")
      ->option_text("ID=FILE");
  made->add_option("--team", to.build.team, "Team to build for")->option_text("NAME");
  made->add_flag("-q,--quiet", to.build.quiet, "Without the log");
  add_wait(*made, to.build.wait, "until it has ended");
  auto* builds = add_command(root, to, to.build_list, "builds", "List image builds, newest first");
  builds->add_option("--team", to.build_list.team, "Only of that team")->option_text("TEAM");
  builds->add_option("--limit", to.build_list.limit, "At most that many")
      ->check(whole_from(1))
      ->option_text("N");
  builds->add_flag("--all-teams", to.build_list.all_teams, "Of all teams");
  builds->add_flag("-q,--quiet", to.build_list.quiet, "Ids only");

  add_command(root, to, to.quota, "quota",
              "Show what each team uses of its quota, borrows and lends");
  add_command(root, to, to.replicas, "replicas",
              "List the gateways that share the store (admins of the platform)");
  add_command(root, to, to.version, "version", "Show the versions of CLI and gateway");
  auto* completion =
      add_command(root, to, to.completion, "completion", "Print a completion script");
  completion->add_option("SHELL", to.completion.shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember(kShells));
}

void build_grammar(CLI::App& root, Storage& to) {
  root.name("sandbox");
  root.formatter(std::make_shared<HelpFormatter>());
  root.require_subcommand(1);
  root.set_version_flag("--version", "sandbox " SANDBOX_VERSION, "Print the version and exit");
  root.footer("sandbox COMMAND --help says more about each. Start with: sandbox login");
  add_lifecycle_commands(root, to);
  add_work_commands(root, to);
  add_ssh_commands(root, to);
  add_session_commands(root, to);
  add_file_commands(root, to);
  add_team_commands(root, to);
  add_other_commands(root, to);
  add_global_everywhere(root, to);
}

}  // namespace cli
