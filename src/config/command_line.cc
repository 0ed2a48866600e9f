#include "config/command_line.h"

#include <unistd.h>

#include "base/sys.h"
#include "config/documents.h"

namespace config {
namespace {

constexpr int kUsageExit = 2;

void print(int fd, std::string_view text) {
  [[maybe_unused]] const auto written = base::sys::write_all(fd, text);
}

void complain(const Program& program, const Problems& problems) {
  for (const std::string& problem : problems) {
    print(STDERR_FILENO, base::cat(program.name, ": ", problem, "\n"));
  }
}

struct Configured {
  Settings settings;
  bool is_right = false;
};

Configured configure(const Program& program, const std::vector<std::string>& arguments,
                     const Environment& environment, Problems (*check)(const Settings&)) {
  Reading reading = read_settings(program, arguments, environment);
  if (reading.problems.empty() && check != nullptr) {
    reading.problems = check(reading.settings);
  }
  complain(program, reading.problems);
  return {.settings = std::move(reading.settings), .is_right = reading.problems.empty()};
}

// `config WORD [options]`.
int run_config(const Program& program, std::vector<std::string> arguments,
               const Environment& environment, Problems (*check)(const Settings&)) {
  const std::string word = arguments.empty() ? "" : arguments.front();
  if (word == "default" && arguments.size() == 1) {
    print(STDOUT_FILENO, default_file(program));
    return 0;
  }
  if (word == "options" && arguments.size() == 1) {
    print(STDOUT_FILENO, options_json(program));
    return 0;
  }
  if (word != "check" && word != "show") {
    complain(program, {"config takes check, show, default or options"});
    return kUsageExit;
  }
  arguments.erase(arguments.begin());
  const auto configured = configure(program, arguments, environment, check);
  if (!configured.is_right) {
    return kUsageExit;
  }
  print(STDOUT_FILENO, word == "show" ? effective_text(configured.settings) : "ok\n");
  return 0;
}

const Command* find_command(const Program& program, std::string_view word) {
  for (const Command& command : program.commands) {
    if (command.name == word) {
      return &command;
    }
  }
  return nullptr;
}

bool is_word_of(const Command& command, std::string_view word) {
  const std::string words = base::cat("|", command.words, "|");
  return !word.empty() && words.find(base::cat("|", word, "|")) != std::string::npos;
}

}  // namespace

Invocation read_command_line(const Program& program, const std::vector<std::string>& given,
                             const Environment& environment, Problems (*check)(const Settings&)) {
  Invocation out{.exit = std::nullopt, .command = "", .word = "", .settings = Settings(program)};
  std::vector<std::string> arguments = given;
  const Command* const command =
      arguments.empty() ? nullptr : find_command(program, arguments.front());
  if (command != nullptr) {
    out.command = arguments.front();
    arguments.erase(arguments.begin());
  }
  for (size_t i = 0; command != nullptr && i < arguments.size(); ++i) {
    // A word comes first, a flag stands anywhere.
    if (is_word_of(*command, arguments[i]) && (i == 0 || arguments[i].starts_with("--"))) {
      out.word = arguments[i];
      arguments.erase(arguments.begin() + static_cast<std::ptrdiff_t>(i));
      break;
    }
  }
  for (const std::string& argument : arguments) {
    if (argument == "--help" || argument == "-h") {
      print(STDOUT_FILENO, help_text(program));
      out.exit = 0;
      return out;
    }
    if (argument == "--version") {
      print(STDOUT_FILENO, base::cat(program.name, " " SANDBOX_VERSION "\n"));
      out.exit = 0;
      return out;
    }
  }
  if (out.command == "config") {
    out.exit = run_config(program, std::move(arguments), environment, check);
    return out;
  }
  auto configured = configure(program, arguments, environment, check);
  if (!configured.is_right) {
    print(STDERR_FILENO, base::cat("Try ", program.name, " --help\n"));
    out.exit = kUsageExit;
  }
  out.settings = std::move(configured.settings);
  return out;
}

}  // namespace config
