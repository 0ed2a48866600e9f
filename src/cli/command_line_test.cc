#include "cli/command_line.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include "base/sys.h"
#include "cli/completion_script.h"
#include "cli/variables.h"

namespace cli {
namespace {

constexpr size_t kGoldenBytesMax = size_t{64} * 1024;

template <typename Options>
Options parsed(const std::vector<std::string>& words) {
  const auto result = parse_command_line(words);
  EXPECT_TRUE(result) << (result ? "" : result.error().message);
  if (!result || !std::holds_alternative<Options>(result->invocation)) {
    ADD_FAILURE() << "not the expected command";
    return {};
  }
  return std::get<Options>(result->invocation);
}

std::string refusal(const std::vector<std::string>& words) {
  const auto result = parse_command_line(words);
  EXPECT_FALSE(result);
  return result ? "" : result.error().message;
}

// Compares with golden/NAME beside this file; SANDBOX_GOLDEN_WRITE=1 writes it anew.
void expect_golden(const std::string& name, const std::string& text) {
  const std::string here = __FILE__;
  const std::string path = here.substr(0, here.rfind('/')) + "/golden/" + name;
  if (::getenv("SANDBOX_GOLDEN_WRITE") != nullptr) {
    ASSERT_TRUE(base::sys::replace_file(path, text, 0644));
  }
  const auto wanted = base::sys::read_file(path, kGoldenBytesMax);
  ASSERT_TRUE(wanted) << wanted.error().message;
  EXPECT_EQ(text, *wanted);
}

TEST(CommandLine, help_is_golden) {
  expect_golden("help.txt", parsed<ShowText>({"--help"}).text);
  expect_golden("help_create.txt", parsed<ShowText>({"create", "--help"}).text);
  expect_golden("help_exec.txt", parsed<ShowText>({"exec", "-h"}).text);
}

TEST(CommandLine, nothing_shows_the_help) {
  EXPECT_TRUE(parsed<ShowText>({}).text.contains("Usage: sandbox COMMAND"));
}

TEST(CommandLine, create_has_documented_defaults) {
  const auto options = parsed<CreateOptions>({"create", "debian:12"});
  EXPECT_EQ(options.image, "debian:12");
  EXPECT_EQ(options.cpus, std::nullopt);
  EXPECT_EQ(options.memory_mb, std::nullopt);
  EXPECT_FALSE(options.storage_mb);
  EXPECT_TRUE(options.wait);
}

TEST(CommandLine, create_takes_all_its_options) {
  const auto options = parsed<CreateOptions>({"create",
                                              "a",
                                              "--cpus",
                                              "0.5",
                                              "--memory",
                                              "2g",
                                              "--storage-mb",
                                              "100",
                                              "-l",
                                              "a=b",
                                              "-l",
                                              "c=d",
                                              "-e",
                                              "X=1,2",
                                              "--user",
                                              "root",
                                              "--lease",
                                              "30m",
                                              "--max-lifetime",
                                              "1d",
                                              "--network",
                                              "none",
                                              "--no-wait",
                                              "--workdir",
                                              "/w",
                                              "--pull",
                                              "always"});
  EXPECT_EQ(options.cpus, 0.5);
  EXPECT_EQ(options.memory_mb, 2048);
  EXPECT_EQ(options.storage_mb, 100);
  EXPECT_EQ(options.labels, (std::vector<std::string>{"a=b", "c=d"}));
  EXPECT_EQ(options.env, std::vector<std::string>{"X=1,2"});
  EXPECT_EQ(options.lease_sec, 1800);
  EXPECT_EQ(options.max_lifetime_sec, 86400);
  EXPECT_EQ(options.network, "none");
  EXPECT_EQ(options.user, "root");
  EXPECT_EQ(options.workdir, "/w");
  EXPECT_EQ(options.pull, "always");
  EXPECT_FALSE(options.wait);
}

TEST(CommandLine, a_repeated_option_does_not_eat_the_image) {
  const auto options = parsed<CreateOptions>({"create", "-e", "A=1", "debian"});
  EXPECT_EQ(options.image, "debian");
  EXPECT_EQ(options.env, std::vector<std::string>{"A=1"});
  const auto repeated = parsed<CreateOptions>({"create", "--compose", "a", "--compose", "b"});
  EXPECT_EQ(repeated.compose, (std::vector<std::string>{"a", "b"}));
}

TEST(CommandLine, everything_behind_the_dashes_is_the_command) {
  const auto options =
      parsed<ExecOptions>({"exec", "sbx-1", "--timeout", "5", "--", "sh", "-c", "x", "--", "-t"});
  EXPECT_EQ(options.sandbox.id, "sbx-1");
  EXPECT_EQ(options.sandbox.container, "");
  EXPECT_EQ(options.command.timeout_sec, 5);
  EXPECT_EQ(options.command.argv, (std::vector<std::string>{"sh", "-c", "x", "--", "-t"}));
  const auto run = parsed<RunOptions>({"run", "-m", "64", "debian", "--", "--help"});
  EXPECT_EQ(run.create.memory_mb, 64);
  EXPECT_EQ(run.command.argv, std::vector<std::string>{"--help"});
}

TEST(CommandLine, a_container_is_named_beside_its_sandbox) {
  const auto options = parsed<ExecOptions>({"exec", "--container", "a b", "sbx-1", "--", "true"});
  EXPECT_EQ(options.sandbox.id, "sbx-1");
  EXPECT_EQ(options.sandbox.container, "a b");
  const std::string target = sandbox_target(options.sandbox, "/sessions/s?x=1");
  EXPECT_EQ(request_target(target), "/sandboxes/sbx-1/sessions/s?x=1&container=a%20b");
  EXPECT_EQ(request_target(sandbox_target(options.sandbox)), "/sandboxes/sbx-1?container=a%20b");
  EXPECT_EQ(request_target(sandbox_target("sbx-1", "/x")), "/sandboxes/sbx-1/x");
}

TEST(CommandLine, a_missing_command_is_explained) {
  EXPECT_TRUE(refusal({"exec", "sbx-1"}).contains("exec ID -- ls"));
  EXPECT_TRUE(refusal({"run", "debian", "--"}).contains("run IMAGE -- ls"));
  EXPECT_TRUE(refusal({"exec", "sbx-1", "ls"}).contains("behind --"));
  EXPECT_TRUE(refusal({"list", "--", "x"}).contains("takes no command"));
}

TEST(CommandLine, commands_of_sessions_take_theirs_behind_the_dashes) {
  const auto start = parsed<SessionStartOptions>({"sessions", "start", "sbx-1", "--name", "web",
                                                  "-t", "--log-limit", "1g", "--", "top", "-b"});
  EXPECT_EQ(start.sandbox.id, "sbx-1");
  EXPECT_EQ(start.name, "web");
  EXPECT_TRUE(start.command.terminal);
  EXPECT_EQ(start.log_limit_mb, 1024);
  EXPECT_EQ(start.command.argv, (std::vector<std::string>{"top", "-b"}));
  EXPECT_TRUE(refusal({"sessions", "start", "sbx-1"}).contains("sessions start ID -- ls"));
  EXPECT_TRUE(refusal({"sessions", "kill", "sbx-1", "s", "--", "x"}).contains("takes no command"));
}

TEST(CommandLine, sessions_are_named_behind_their_sandbox) {
  const auto logs = parsed<SessionLogsOptions>(
      {"sessions", "logs", "sbx-1", "s-1", "-f", "--offset", "12", "--stream", "stderr"});
  EXPECT_EQ(logs.session, "s-1");
  EXPECT_EQ(logs.offset, 12U);
  EXPECT_TRUE(logs.follow);
  const auto write = parsed<SessionWriteOptions>({"sessions", "write", "sbx-1", "s-1", "a line"});
  EXPECT_EQ(write.text, "a line");
  EXPECT_FALSE(parsed<SessionWriteOptions>({"sessions", "write", "sbx-1", "s-1"}).text);
  EXPECT_EQ(parsed<SessionResizeOptions>({"sessions", "resize", "b", "s", "120", "40"}).rows, 40);
  EXPECT_FALSE(refusal({"sessions", "resize", "b", "s", "0", "40"}).empty());
  EXPECT_EQ(parsed<SessionRemoveOptions>({"sessions", "rm", "b", "s", "t"}).sessions.size(), 2U);
  EXPECT_EQ(parsed<ShellOptions>({"shell", "b", "--session", "x"}).session, "x");
}

TEST(CommandLine, global_options_stand_before_or_behind_the_command) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"-o", "json", "--url", "http://x", "list"},
        std::vector<std::string>{"list", "-o", "json", "--url", "http://x"}}) {
    const auto result = parse_command_line(words);
    ASSERT_TRUE(result) << result.error().message;
    EXPECT_EQ(result->global.output, OutputFormat::json);
    EXPECT_EQ(result->global.connection.url, "http://x");
  }
}

TEST(CommandLine, wrong_values_are_refused_on_one_line) {
  for (const std::vector<std::string>& words : {std::vector<std::string>{"list", "-o", "xml"},
                                                {"create"},
                                                {"create", "a", "--compose", "b"},
                                                {"nothing"},
                                                {"image"},
                                                {"create", "a", "--cpus", "many"},
                                                {"create", "a", "--memory", "-1"},
                                                {"create", "a", "--network", "vpn"},
                                                {"list", "--limit", "0"},
                                                {"completion", "csh"}}) {
    const std::string message = refusal(words);
    EXPECT_FALSE(message.empty());
    EXPECT_FALSE(message.contains('\n')) << message;
  }
}

TEST(CommandLine, a_mistake_is_told_by_the_word_that_is_wrong) {
  const std::pair<std::vector<std::string>, std::string_view> rows[] = {
      {{"nothing", "at", "all"}, "'sandbox' has no command 'nothing': 'sandbox --help' lists them"},
      {{"-o", "json"}, "'sandbox' needs a command: 'sandbox --help' lists them"},
      {{"sessions", "stop", "a"},
       "'sandbox sessions' has no command 'stop': 'sandbox sessions --help' lists them"},
      {{"image"}, "'sandbox image' needs a command: 'sandbox image --help' lists them"},
      {{"exec", "sbx-1", "ls", "-la"},
       "'sandbox exec' does not know what to do with 'ls' (the command stands behind --)"},
      {{"me", "--quick", "now"}, "'sandbox me' does not know what to do with '--quick'"},
      {{"list", "--limit", "0"}, "--limit: '0' is not a whole number from 1 on"},
      {{"builds", "--limit", "-1"}, "--limit: '-1' is not a whole number from 1 on"},
      {{"audit", "--limit", "1.5"}, "--limit: '1.5' is not a whole number from 1 on"},
      {{"files", "ls", "a", "/", "--depth", "x"}, "--depth: 'x' is not a whole number from 1 on"},
      {{"sessions", "logs", "a", "b", "--offset", "-1"},
       "--offset: '-1' is not a whole number from 0 on"},
      {{"sessions", "attach", "a", "b", "--offset", "-1"},
       "--offset: '-1' is not a whole number from 0 on"},
      {{"token", "limits", "a", "--rate", "-1"}, "--rate: '-1' is not a whole number from 0 on"},
      {{"exec", "a", "--timeout", "0", "--", "b"},
       "--timeout: '0' is not a time: write 90, 90s, 30m, 2h or 1d"},
      {{"create", "a", "--memory", "0"}, "--memory-mb: '0' is not a size: write 512, 512m or 2g"}};
  for (const auto& [words, message] : rows) {
    EXPECT_TRUE(refusal(words).ends_with(message)) << refusal(words);
  }
}

TEST(CommandLine, dash_is_a_path) {
  const auto options = parsed<CopyOptions>({"cp", "-", "sbx-1:/a"});
  EXPECT_EQ(options.source, "-");
  EXPECT_EQ(parsed<ImageImportOptions>({"image", "import", "-", "name"}).file, "-");
}

TEST(ParseMegabytes, takes_units_and_refuses_the_rest) {
  EXPECT_EQ(parse_megabytes("512"), 512);
  EXPECT_EQ(parse_megabytes("512m"), 512);
  EXPECT_EQ(parse_megabytes("2G"), 2048);
  EXPECT_EQ(parse_megabytes("1TiB"), 1048576);
  for (const std::string_view bad :
       {"", "m", "0", "-5", "1.5g", "5k", "99999999999999999999", "9223372036854775807g"}) {
    EXPECT_FALSE(parse_megabytes(bad)) << bad;
  }
}

TEST(ParseSeconds, takes_units_and_refuses_the_rest) {
  EXPECT_EQ(parse_seconds("90"), 90);
  EXPECT_EQ(parse_seconds("2h"), 7200);
  for (const std::string_view bad : {"", "0", "1w", "1h30m", "9223372036854775807d"}) {
    EXPECT_FALSE(parse_seconds(bad)) << bad;
  }
}

TEST(Variables, the_last_of_a_name_wins_and_bare_names_are_passed_on) {
  ::setenv("SANDBOX_CLI_TEST_VARIABLE", "here", 1);
  const auto object = read_variables({"A=1", "A=2=3", "SANDBOX_CLI_TEST_VARIABLE", "E="}, {});
  ASSERT_TRUE(object) << object.error().message;
  EXPECT_EQ(wire::json::serialize(*object),
            R"({"A":"2=3","SANDBOX_CLI_TEST_VARIABLE":"here","E":""})");
  EXPECT_FALSE(read_variables({"SANDBOX_CLI_TEST_UNSET"}, {}));
}

TEST(Variables, errors_do_not_repeat_values) {
  const auto refused = read_variables({"=secret-value"}, {});
  ASSERT_FALSE(refused);
  EXPECT_FALSE(refused.error().message.contains("secret"));
}

TEST(Completion, knows_every_command_and_option) {
  const auto commands = describe_commands();
  for (const std::string_view shell : {"bash", "zsh", "fish"}) {
    const std::string script = completion_script(shell, commands);
    for (const std::string_view word :
         {"create", "import", "network", "missing always", "attach", "chmod", "both stdout"}) {
      EXPECT_TRUE(script.contains(word)) << shell << " lacks " << word;
    }
  }
  EXPECT_TRUE(completion_script("bash", commands)
                  .contains("sessions|files|team|token|identity|sign-in|image) command="));
  const auto exec = std::ranges::find(commands, "exec", &CommandInfo::name);
  ASSERT_NE(exec, commands.end());
  EXPECT_TRUE(exec->takes_id);
  EXPECT_NE(std::ranges::find(commands, "image gc", &CommandInfo::name), commands.end());
}

TEST(CommandLine, ports_are_forwarded_as_written) {
  const auto options =
      parsed<ForwardOptions>({"forward", "sbx", "80", "8080:81", ":82", "--host", "db"});
  ASSERT_EQ(options.ports.size(), 3U);
  EXPECT_EQ(options.ports[0].local, 80);
  EXPECT_EQ(options.ports[1].local, 8080);
  EXPECT_EQ(options.ports[1].remote, 81);
  EXPECT_EQ(options.ports[2].local, 0);
  EXPECT_EQ(options.host, "db");
  for (const std::string_view wrong : {"", "0", "8080:", "x", "1:65536", "1:2:3", "-1"}) {
    EXPECT_FALSE(parse_port_pair(wrong)) << wrong;
  }
}

}  // namespace
}  // namespace cli
