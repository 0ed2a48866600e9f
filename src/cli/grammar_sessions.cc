// Commands of the sessions of a sandbox.
#include "cli/command_line.h"
#include "cli/grammar_options.h"

namespace cli {

namespace {

void add_session(CLI::App& app, SandboxTarget& sandbox, std::string& session) {
  add_target(app, sandbox);
  app.add_option("SESSION", session, "Session's id or name")->required();
}

void add_start(CLI::App& group, Storage& to) {
  auto& options = to.session_start;
  auto* start =
      add_command(group, to, options, "start", "Start a command; prints the session's id");
  add_target(*start, options.sandbox);
  start->add_option("--name", options.name, "Name by which it is found, too")->option_text("NAME");
  add_command_place(*start, options.command);
  add_parsed(*start, "--timeout", parse_seconds, options.command.timeout_sec,
             "Ends the command after that long")
      ->option_text("TIME");
  add_parsed(*start, "--log-limit", parse_megabytes, options.log_limit_mb,
             "Output kept, in MB or with a unit; the oldest goes first")
      ->option_text("SIZE");
  start->add_flag("-t,--tty", options.command.terminal, "Give the command a terminal");
  start->add_flag_callback(
      "-n,--no-stdin", [&options] { options.command.read_input = false; },
      "Its input ends at once");
  start->footer("The command stands behind --. It goes on when nobody looks.");
}

void add_reading(CLI::App& group, Storage& to) {
  auto* list = add_command(group, to, to.session_list, "list", "List sessions");
  list->alias("ls");
  add_target(*list, to.session_list.sandbox);
  list->add_flag("-q,--quiet", to.session_list.quiet, "Ids only");

  auto* get = add_command(group, to, to.session_get, "get", "Show one session");
  add_session(*get, to.session_get.sandbox, to.session_get.session);
  add_parsed(*get, "--wait", parse_seconds, to.session_get.wait_sec,
             "Wait up to that long for its end")
      ->option_text("TIME");

  auto* logs = add_command(group, to, to.session_logs, "logs", "Show what a session wrote");
  add_session(*logs, to.session_logs.sandbox, to.session_logs.session);
  logs->add_flag("-f,--follow", to.session_logs.follow, "Go on until it ends");
  logs->add_option("--offset", to.session_logs.offset, "From that byte of its output on")
      ->check(whole_from(0))
      ->option_text("BYTES");
  logs->add_option("--stream", to.session_logs.stream, "both, stdout or stderr (default both)")
      ->check(CLI::IsMember(kStreams))
      ->option_text("STREAM");
}

}  // namespace

void add_session_commands(CLI::App& root, Storage& to) {
  auto* sessions = root.add_subcommand("sessions", "Commands that run in the background");
  sessions->require_subcommand(1);
  add_start(*sessions, to);
  add_reading(*sessions, to);

  auto* attach = add_command(*sessions, to, to.session_attach, "attach", "See and type along");
  add_session(*attach, to.session_attach.sandbox, to.session_attach.session);
  attach->add_option("--offset", to.session_attach.offset, "From that byte of its output on")
      ->check(whole_from(0))
      ->option_text("BYTES");
  attach->add_flag_callback(
      "-n,--no-stdin", [&to] { to.session_attach.read_input = false; },
      "Do not read standard input");
  attach->footer(
      "Leaving (Ctrl-C, or ~. with a terminal) does not end the session. Exit code: the "
      "command's.");

  auto* write = add_command(*sessions, to, to.session_write, "write", "Write to a session's input");
  add_session(*write, to.session_write.sandbox, to.session_write.session);
  write->add_option("TEXT", to.session_write.text, "A line to write (default: standard input)");
  write->add_flag("--eof", to.session_write.end, "End its input then");

  auto* kill = add_command(*sessions, to, to.session_kill, "kill",
                           "Send a signal to all processes of a session");
  add_session(*kill, to.session_kill.sandbox, to.session_kill.session);
  kill->add_option("-s,--signal", to.session_kill.signal, "Its name (default TERM)")
      ->option_text("SIGNAL");

  auto* resize = add_command(*sessions, to, to.session_resize, "resize",
                             "Set the size of a session's terminal");
  add_session(*resize, to.session_resize.sandbox, to.session_resize.session);
  resize->add_option("COLUMNS", to.session_resize.columns, "Columns")
      ->required()
      ->check(CLI::Range(1, 65535));
  resize->add_option("ROWS", to.session_resize.rows, "Rows")
      ->required()
      ->check(CLI::Range(1, 65535));

  auto* remove =
      add_command(*sessions, to, to.session_remove, "rm", "End sessions and forget them");
  add_target(*remove, to.session_remove.sandbox);
  remove->add_option("SESSION", to.session_remove.sessions, "Sessions' ids or names")->required();
}

}  // namespace cli
