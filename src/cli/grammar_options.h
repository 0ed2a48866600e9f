// Options that several commands share, in CLI11's terms. Used while the grammar is built only.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "cli/grammar.h"

namespace cli {

// A subcommand whose options are those of `from`.
template <typename Options>
CLI::App* add_command(CLI::App& parent, Storage& to, Options& from, const std::string& name,
                      const std::string& help) {
  CLI::App* command = parent.add_subcommand(name, help);
  command->callback([&to, &from] {
    to.take = [&from] { return Invocation(from); };
    if constexpr (requires { from.command.argv; }) {
      to.argv = &from.command.argv;
    }
  });
  return command;
}

// An option whose text goes through `parse` (text to Result) into `target`.
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

// Whole numbers, not below `least`.
CLI::Validator whole_from(int64_t least);
// One option that may be given several times, one value each.
CLI::Option* add_repeated(CLI::App& app, const std::string& names, std::vector<std::string>& to,
                          const std::string& help, const std::string& value);
void add_id(CLI::App& app, std::string& to);
// A sandbox, and the container of it that is meant.
void add_target(CLI::App& app, SandboxTarget& to);
void add_user(CLI::App& app, std::string& to);
void add_environment(CLI::App& app, std::vector<std::string>& env, std::vector<std::string>& files);
// Where a sandbox may connect to.
void add_allow(CLI::App& app, std::vector<std::string>& to);
void add_create_options(CLI::App& app, CreateOptions& to);
// What a command sees: variables, user, folder.
void add_command_place(CLI::App& app, CommandOptions& to);
void add_command_options(CLI::App& app, CommandOptions& to);
void add_wait(CLI::App& app, bool& to, const std::string& until);
void add_global_everywhere(CLI::App& app, Storage& to);

}  // namespace cli
