// Commands on teams, their members and tokens.
#include "cli/command_line.h"
#include "cli/grammar_options.h"

namespace cli {

namespace {

const std::vector<std::string> kRoles{"member", "admin"};
const std::vector<std::string> kScopes{"read", "member", "admin", "metrics"};

void add_definition(CLI::App& app, TeamDefinitionOptions& to) {
  app.add_option("-f,--file", to.file, "Fields in YAML or JSON, - for standard input")
      ->option_text("FILE");
  add_repeated(app, "-s,--set", to.settings,
               "One field, like quota.cpus=8 or isolation=[container] (repeatable)", "FIELD=VALUE");
}

void add_name(CLI::App& app, std::string& to) {
  app.add_option("NAME", to, "Name of the team")->required();
}

void add_team_group(CLI::App& root, Storage& to) {
  auto* team = root.add_subcommand("team", "Teams, their limits and members");
  team->require_subcommand(1);
  auto* list = add_command(*team, to, to.team_list, "list", "List the teams you are in");
  list->alias("ls");
  list->add_flag("-a,--all", to.team_list.all, "All teams");
  list->add_flag("-q,--quiet", to.team_list.quiet, "Names only");
  auto* get = add_command(*team, to, to.team_get, "get", "Show a team");
  add_name(*get, to.team_get.name);
  auto* create = add_command(*team, to, to.team_create, "create", "Make a team");
  add_name(*create, to.team_create.name);
  add_definition(*create, to.team_create.definition);
  auto* update = add_command(*team, to, to.team_update, "update", "Change fields of a team");
  add_name(*update, to.team_update.name);
  add_definition(*update, to.team_update.definition);
  auto* remove =
      add_command(*team, to, to.team_delete, "delete", "Delete teams without sandboxes and tokens");
  remove->add_option("NAME", to.team_delete.names, "Names of teams")->required();
  auto* members =
      add_command(*team, to, to.team_members, "members", "Show, add and remove members");
  add_name(*members, to.team_members.name);
  add_repeated(*members, "--add", to.team_members.added, "Add, or give the role (repeatable)",
               "SUBJECT");
  members->add_option("--role", to.team_members.role, "member (default) or admin")
      ->check(CLI::IsMember(kRoles))
      ->option_text("ROLE");
  add_repeated(*members, "--remove", to.team_members.removed,
               "Remove, with the tokens in this team (repeatable)", "SUBJECT");
}

void add_token_group(CLI::App& root, Storage& to) {
  auto* token = root.add_subcommand("token", "Tokens for the API");
  token->require_subcommand(1);
  auto* list = add_command(*token, to, to.token_list, "list", "List tokens, newest first");
  list->alias("ls");
  list->add_option("--team", to.token_list.team, "Only of that team")->option_text("TEAM");
  list->add_flag("-a,--all", to.token_list.all, "Of all teams that you administer");
  list->add_flag("-q,--quiet", to.token_list.quiet, "Ids only");
  auto* create =
      add_command(*token, to, to.token_create, "create", "Make a token; prints its secret once");
  create->add_option("NAME", to.token_create.name, "What it is for")->required();
  add_repeated(*create, "--scope", to.token_create.scopes,
               "read, member, admin or metrics (repeatable)", "SCOPE")
      ->required()
      ->check(CLI::IsMember(kScopes));
  create->add_option("--team", to.token_create.team, "Its team (default: yours)")
      ->option_text("TEAM");
  create
      ->add_option("--subject", to.token_create.subject,
                   "The member it speaks for (default: nobody, it stands for itself)")
      ->option_text("SUBJECT");
  create->add_option("--role", to.token_create.role, "member (default) or admin")
      ->check(CLI::IsMember(kRoles))
      ->option_text("ROLE");
  create->add_flag("--every-team", to.token_create.every_team,
                   "In every team that has the subject as a member");
  add_parsed(*create, "--expires", parse_seconds, to.token_create.expires_sec,
             "Valid for that long, like 12h or 30d (default: for ever)")
      ->option_text("TIME");
  auto* revoke = add_command(*token, to, to.token_revoke, "revoke", "Make tokens invalid at once");
  revoke->add_option("ID", to.token_revoke.ids, "Token ids")->required();
  auto* limits = add_command(*token, to, to.token_limits, "limits",
                             "Show or set what one token may ask for (0: no limit)");
  limits->add_option("ID", to.token_limits.id, "Token id")->required();
  const auto add_limit = [&](const char* name, std::optional<int64_t>& value, const char* help) {
    limits->add_option(name, value, help)->check(whole_from(0))->option_text("N");
  };
  add_limit("--rate", to.token_limits.rate, "Requests a second");
  add_limit("--burst", to.token_limits.burst, "Requests at once");
  add_limit("--creates", to.token_limits.creates, "Creates at once");
  add_limit("--streams", to.token_limits.streams, "WebSockets and followed answers at once");
  add_limit("--body-mb", to.token_limits.body_mb, "Megabytes of one request's body");
  limits->add_flag("--reset", to.token_limits.reset, "The operator's limits again, then the given");
}

void add_identity_group(CLI::App& root, Storage& to) {
  auto* group =
      root.add_subcommand("identity", "Who sandboxes are to others, and the keys of that");
  group->require_subcommand(1);
  auto* token = add_command(*group, to, to.identity_token, "token",
                            "Print a signed token that says which sandbox it is");
  token->add_option("ID", to.identity_token.id, "The sandbox")->required();
  token
      ->add_option("--audience", to.identity_token.audience,
                   "Whom it is for (default: the gateway itself)")
      ->option_text("AUDIENCE");
  add_command(*group, to, to.identity_keys, "keys", "List the keys that sign (platform's admins)");
  add_command(*group, to, to.identity_rotate, "rotate",
              "Sign with the next key from now on (platform's admins)");
}

void add_sign_in_group(CLI::App& root, Storage& to) {
  auto* group = root.add_subcommand("sign-in", "Where people are signed in");
  group->require_subcommand(1);
  auto* list = add_command(*group, to, to.sign_in_list, "list", "List your sign-ins, newest first");
  list->alias("ls");
  auto* subject =
      list->add_option("--subject", to.sign_in_list.subject, "Of that person (platform's admins)")
          ->option_text("SUBJECT");
  list->add_flag("-a,--all", to.sign_in_list.all, "Of everybody (platform's admins)")
      ->excludes(subject);
  list->add_flag("-q,--quiet", to.sign_in_list.quiet, "Ids only");
  auto* end = add_command(*group, to, to.sign_in_end, "end", "End sign-ins at once");
  auto* ids = end->add_option("ID", to.sign_in_end.ids, "Ids of sign-ins");
  auto* all = end->add_flag("--all", to.sign_in_end.all, "All of yours, this one too");
  all->excludes(ids);
  end->add_option("--subject", to.sign_in_end.subject, "All of that person (platform's admins)")
      ->needs(all)
      ->option_text("SUBJECT");
}

}  // namespace

void add_team_commands(CLI::App& root, Storage& to) {
  add_team_group(root, to);
  add_token_group(root, to);
  add_identity_group(root, to);
  add_sign_in_group(root, to);
  auto* apply = add_command(root, to, to.apply, "apply", "Make teams what a file says");
  apply->add_option("FILE", to.apply.file, "Definitions of teams in YAML, - for standard input")
      ->required();
  apply->add_flag("-n,--dry-run", to.apply.dry_run, "Only show what would change");
  apply->add_flag("-y,--yes", to.apply.yes, "Do not ask");
  apply->add_flag("--prune", to.apply.prune, "Delete the teams that are not in the file");
  add_command(root, to, to.me, "me", "Show who you are to the gateway");
}

}  // namespace cli
