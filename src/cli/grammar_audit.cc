// activity and audit: who did what, in one sandbox or in the team.
#include "cli/command_line.h"
#include "cli/grammar_options.h"

namespace cli {

namespace {

void add_scope(CLI::App& app, TeamScope& to) {
  app.add_option("--team", to.team, "Of that team (admins)")->option_text("TEAM");
  app.add_flag("--all-teams", to.all_teams, "Of all teams (admins)");
}

void add_filter(CLI::App& app, AuditFilterOptions& to) {
  app.add_option("--event", to.event, "Only this one, such as command.run")->option_text("NAME");
  app.add_option("--caller", to.caller, "Only of that subject")->option_text("NAME");
  app.add_option("--sandbox", to.sandbox, "Only of that sandbox")->option_text("ID");
  app.add_option("--from", to.from, "This time and later: 2026-01-31T09:00:00Z")
      ->option_text("TIME");
  app.add_option("--until", to.until, "Earlier than this time")->option_text("TIME");
  app.add_option("--result", to.result, "ok, error, or one code of an error")
      ->option_text("RESULT");
  app.add_option("--text", to.text, "With that text in it")->option_text("TEXT");
  add_scope(app, to.scope);
}

}  // namespace

void add_audit_commands(CLI::App& root, Storage& to) {
  auto* activity = add_command(root, to, to.activity, "activity",
                               "Show what goes on in a sandbox, or who did how much in the team");
  activity->add_option("ID", to.activity.id, "Sandbox id; without it: of the team");
  activity->add_option("--from", to.activity.from, "This time and later (default: a day ago)")
      ->option_text("TIME");
  activity->add_option("--to", to.activity.to, "Earlier than this time (default: now)")
      ->option_text("TIME");
  add_parsed(*activity, "--step", parse_seconds, to.activity.step_sec,
             "Length of a step: 60s, 15m, 1h (default), 1d")
      ->option_text("TIME");
  add_scope(*activity, to.activity.scope);

  auto* audit = root.add_subcommand("audit", "Show who did what to a sandbox, or in the team");
  audit->callback([&to, audit] {
    if (audit->get_subcommands().empty()) {
      to.take = [&to] { return Invocation(to.audit); };
    }
  });
  audit->add_option("ID", to.audit.id, "Sandbox id; without it: of the team");
  add_filter(*audit, to.audit.filter);
  audit->add_option("--limit", to.audit.limit, "At most that many (default 100)")
      ->check(whole_from(1))
      ->option_text("N");

  auto* lines = add_command(*audit, to, to.audit_export, "export",
                            "Write rows as JSON lines, in the order of the chain");
  lines->add_option("FILE", to.audit_export.file, "Where to (default: standard output)");
  add_filter(*lines, to.audit_export.filter);
  auto* verify = add_command(*audit, to, to.audit_verify, "verify",
                             "Check that no row was changed, removed or moved (admins)");
  verify->add_option("FILE", to.audit_verify.file,
                     "An export of all teams without a filter, - for standard input");
  verify->add_option("--noted", to.audit_verify.noted, "A head that was noted earlier")
      ->option_text("ID:HASH");
  verify->footer("Exit code 1: the log is broken, and the first broken row is told.");
  add_command(*audit, to, to.audit_head, "head",
              "Print the end of the chain, to note down elsewhere");
}

}  // namespace cli
