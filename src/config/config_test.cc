// What a person can give, from the file to the flags, and what is said about what is wrong.
#include <gtest/gtest.h>
#include <unistd.h>

#include <map>

#include "base/sys.h"
#include "config/documents.h"
#include "config/file.h"
#include "config/gateway_options.h"
#include "config/node_options.h"
#include "config/settings.h"

namespace config {
namespace {

using Variables = std::map<std::string, std::string>;

Environment environment_of(const Variables& variables) {
  return [variables, kept = std::make_shared<Variables>(variables)](const std::string& name) {
    const auto found = kept->find(name);
    return found == kept->end() ? nullptr : found->second.c_str();
  };
}

constexpr Option kTestOptions[] = {
    {.name = "listen", .kind = Kind::address, .standard = "127.0.0.1:80", .value = "A"},
    {.name = "level", .kind = Kind::choice, .standard = "info", .choices = "debug|info"},
    {.name = "count", .kind = Kind::number, .standard = "3", .least = 1, .most = 9},
    {.name = "cpus", .kind = Kind::decimal, .standard = "1", .least = 1, .most = 2000},
    {.name = "local", .kind = Kind::boolean, .standard = "no"},
    {.name = "url", .value = "URL", .may_be_empty = true},
    {.name = "key", .value = "KEY", .may_be_empty = true, .is_secret = true},
};
constexpr Program kTestProgram{.name = "test",
                               .variable_prefix = "TEST_",
                               .file = "/nonexistent/test.conf",
                               .options = kTestOptions};

class Config : public testing::Test {
 protected:
  ~Config() override { ::unlink(path_.c_str()); }

  Reading read(const std::vector<std::string>& arguments, const Variables& variables = {}) {
    return read_settings(kTestProgram, arguments, environment_of(variables));
  }
  Reading read_lines(const std::string& text, std::vector<std::string> arguments = {},
                     const Variables& variables = {}) {
    EXPECT_TRUE(base::sys::replace_file(path_, text, 0600));
    arguments.insert(arguments.begin(), "--config=" + path_);
    return read(arguments, variables);
  }
  // The one problem that there is.
  static std::string only_problem(const Reading& reading) {
    EXPECT_EQ(reading.problems.size(), 1U);
    return reading.problems.empty() ? "" : reading.problems.front();
  }

  std::string path_ = testing::TempDir() + "config_test." + std::to_string(::getpid());
};

TEST_F(Config, a_flag_beats_a_variable_which_beats_the_file_which_beats_the_default) {
  const std::string file = "count = 5\ncpus = 0.5\nlocal = yes\n";
  const Variables variables{{"TEST_COUNT", "6"}, {"TEST_CPUS", "1.5"}};
  const auto reading = read_lines(file, {"--count", "7"}, variables);
  ASSERT_TRUE(reading.problems.empty()) << reading.problems.front();
  EXPECT_EQ(reading.settings.number("count"), 7);
  EXPECT_EQ(reading.settings.thousandths("cpus"), 1500);
  EXPECT_TRUE(reading.settings.boolean("local"));
  EXPECT_EQ(reading.settings.text("level"), "info");
  const std::string shown = effective_text(reading.settings);
  EXPECT_NE(shown.find("--count "), std::string::npos) << shown;
  EXPECT_NE(shown.find("TEST_CPUS "), std::string::npos) << shown;
  EXPECT_NE(shown.find(path_ + ":3  local = yes"), std::string::npos) << shown;
  EXPECT_NE(shown.find("default "), std::string::npos) << shown;
}

TEST_F(Config, a_wrong_line_is_named_by_file_line_and_key) {
  for (const auto& [line, key] :
       std::map<std::string, std::string>{{"colour = red", "colour"},
                                          {"count = many", "count"},
                                          {"count = 10", "count"},
                                          {"count = 0", "count"},
                                          {"count =", "count"},
                                          {"cpus = 2.001", "cpus"},
                                          {"cpus = nan", "cpus"},
                                          {"local = maybe", "local"},
                                          {"local =", "local"},
                                          {"level = loud", "level"},
                                          {"level =", "level"},
                                          {"listen = somewhere", "listen"},
                                          {"listen = 127.0.0.1:70000", "listen"},
                                          {"url = a\x01z", "url"},
                                          {"url = \xff", "url"},
                                          {"config = other.conf", "config"},
                                          {"count = 4\ncount = 5", "count"}}) {
    const auto problem = only_problem(read_lines("# a comment\n\n" + line + "\n"));
    const std::string number = line.find('\n') == std::string::npos ? "3" : "4";
    const std::string place = base::cat(path_, ":", number, ": ", key, ": ");
    EXPECT_TRUE(problem.starts_with(place)) << problem << " is not at " << place;
  }
}

TEST_F(Config, what_is_no_line_is_named_too) {
  for (const std::string line :
       {"count", "= 4", "Count = 4", "co unt = 4", "[section]", "\x01=2"}) {
    EXPECT_TRUE(only_problem(read_lines(line)).starts_with(path_ + ":1: ")) << line;
  }
}

TEST_F(Config, every_problem_is_told_at_once) {
  const auto reading =
      read_lines("a = 1\ncount = x\n", {"--nothing", "1", "word"}, {{"TEST_LEVEL", "loud"}});
  EXPECT_EQ(reading.problems.size(), 5U);
}

TEST_F(Config, wrong_variables_and_flags_name_themselves) {
  EXPECT_TRUE(only_problem(read({}, {{"TEST_COUNT", "x"}})).starts_with("TEST_COUNT: "));
  EXPECT_TRUE(only_problem(read({"--count", "x"})).starts_with("--count: "));
  EXPECT_TRUE(only_problem(read({"--count"})).starts_with("--count: "));
  EXPECT_TRUE(only_problem(read({"--colour=red"})).starts_with("--colour: "));
}

TEST_F(Config, a_value_is_the_rest_of_its_line) {
  const auto reading = read_lines("  url\t=  a = b # c  \r\n");
  ASSERT_TRUE(reading.problems.empty()) << reading.problems.front();
  EXPECT_EQ(reading.settings.text("url"), "a = b # c");
}

TEST_F(Config, a_yes_or_no_flag_may_stand_alone) {
  EXPECT_TRUE(read({"--local"}).settings.boolean("local"));
  EXPECT_TRUE(read({"--local", "yes"}).settings.boolean("local"));
  EXPECT_FALSE(read({"--local", "no"}).settings.boolean("local"));
  EXPECT_FALSE(read({"--local=false"}).settings.boolean("local"));
  const auto reading = read({"--local", "--count", "4"});
  EXPECT_TRUE(reading.settings.boolean("local"));
  EXPECT_EQ(reading.settings.number("count"), 4);
}

TEST_F(Config, a_named_file_must_be_there_and_the_standard_one_need_not) {
  EXPECT_TRUE(read({}).problems.empty());
  EXPECT_TRUE(read({"--config", ""}).problems.empty());
  EXPECT_EQ(read({"--config", "/nonexistent/x"}).problems.size(), 1U);
  EXPECT_EQ(read({}, {{"TEST_CONFIG", "/nonexistent/x"}}).problems.size(), 1U);
  EXPECT_EQ(read({"--config", "/tmp"}).problems.size(), 1U);
}

TEST_F(Config, secrets_are_not_shown) {
  const auto reading = read({"--key", "hunter2", "--url", "postgres://me:hunter2@host/db"});
  const std::string shown = effective_text(reading.settings);
  EXPECT_EQ(shown.find("hunter2"), std::string::npos) << shown;
  EXPECT_NE(shown.find("postgres://me:(secret)@host/db"), std::string::npos) << shown;
}

class Programs : public testing::TestWithParam<const Program*> {};

TEST_P(Programs, have_defaults_that_are_right) {
  for (const Option& option : GetParam()->options) {
    EXPECT_TRUE(parse_value(option, option.standard)) << option.name;
    EXPECT_FALSE(option.help.empty() || option.help.ends_with('.')) << option.name;
    EXPECT_FALSE(option.value.empty() && option.choices.empty()) << option.name;
  }
}

TEST_P(Programs, have_no_name_twice) {
  std::map<std::string_view, int> count;
  for (const Option& option : GetParam()->options) {
    EXPECT_EQ(++count[option.name], 1) << option.name;
  }
}

TEST_P(Programs, write_a_file_that_they_read_commented_out_or_not) {
  const std::string text = default_file(*GetParam());
  Problems problems;
  EXPECT_TRUE(parse_file(text, "default", problems).empty());
  std::string live;
  for (const std::string_view line : base::split(text, '\n')) {
    live += line.starts_with("#") && !line.starts_with("# ") ? line.substr(1) : line;
    live += '\n';
  }
  const auto lines = parse_file(live, "default", problems);
  EXPECT_TRUE(problems.empty()) << problems.front();
  ASSERT_EQ(lines.size(), GetParam()->options.size());
  for (size_t i = 0; i < lines.size(); ++i) {
    EXPECT_EQ(lines[i].key, GetParam()->options[i].name);
    EXPECT_EQ(lines[i].value, GetParam()->options[i].standard);
  }
}

TEST_P(Programs, name_every_option_in_their_help) {
  const std::string help = help_text(*GetParam());
  for (const Option& option : GetParam()->options) {
    EXPECT_NE(help.find(base::cat("--", option.name, " ")), std::string::npos) << option.name;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Programs, testing::Values(&gateway_program(), &node_program()),
                         [](const auto& row) { return row.index == 0 ? "gateway" : "node"; });

}  // namespace
}  // namespace config
