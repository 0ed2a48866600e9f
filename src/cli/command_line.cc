#include "cli/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <limits>

#include "cli/grammar.h"

namespace cli {

using base::ErrorCode;
using base::fail;

namespace {

constexpr std::string_view kAbout = "Sandboxes from container images, from the command line";

CLI::App* deepest_parsed(CLI::App& root) {
  CLI::App* app = &root;
  while (!app->get_subcommands().empty()) {
    app = app->get_subcommands().front();
  }
  return app;
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

// Puts the words behind "--" where they belong.
Result<void> attach_command(const std::string& name, Storage& storage, bool has_separator,
                            const std::vector<std::string>& argv) {
  if (storage.argv == nullptr) {
    if (has_separator) {
      return base::fail_field("argv", "'sandbox ", name, "' takes no command behind --");
    }
    return {};
  }
  if (argv.empty() && word_before_command(name).empty()) {
    return {};  // it can do without
  }
  if (argv.empty()) {
    return base::fail_field("argv", "the command is missing: sandbox ", name, " ",
                            word_before_command(name), " -- ls -l");
  }
  *storage.argv = argv;
  return {};
}

constexpr std::string_view kSizeForms = "write 512, 512m or 2g";
constexpr std::string_view kTimeForms = "write 90, 90s, 30m, 2h or 1d";

Result<std::pair<int64_t, std::string>> split_unit(std::string_view text, std::string_view what,
                                                   std::string_view forms) {
  size_t digits = 0;
  while (digits < text.size() && text[digits] >= '0' && text[digits] <= '9') {
    ++digits;
  }
  const auto number = base::parse_number<int64_t>(text.substr(0, digits));
  if (!number || *number <= 0) {
    return base::fail_field(what, "'", text, "' is not a ", what, ": ", forms);
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

std::string describe_mistake(const CLI::App& app, const CLI::ParseError& error) {
  const std::string name = full_name(&app);
  const std::string program = app.get_parent() == nullptr ? "sandbox" : base::cat("sandbox ", name);
  const auto left = app.remaining();  // CLI11's own message has them backwards
  if (app.get_require_subcommand_min() > 0 && app.get_subcommands().empty()) {
    return left.empty()
               ? base::cat("'", program, "' needs a command: '", program, " --help' lists them")
               : base::cat("'", program, "' has no command '", left.front(), "': '", program,
                           " --help' lists them");
  }
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr && !left.empty()) {
    return base::cat("'", program, "' does not know what to do with '", left.front(), "'",
                     word_before_command(name).empty() ? "" : " (the command stands behind --)");
  }
  return one_line(error.what());
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
  const std::pair<std::string_view, const std::vector<std::string>&> closed[] = {
      {"--output", kOutputs},
      {"--network", kNetworks},
      {"--pull", kPulls},
      {"--state", kStates},
      {"--stream", kStreams}};
  for (const auto& [name, choices] : closed) {
    if (first == name) {
      info.choices = choices;
    }
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
    return base::fail_field("arguments", describe_mistake(*deepest_parsed(root), error));
  }
  const std::string name = full_name(deepest_parsed(root));
  RETURN_IF_ERROR(attach_command(name, storage, has_separator, argv));
  storage.global.output = parse_output(storage.output);
  return ParsedCommandLine{.global = storage.global, .invocation = storage.take()};
}

Result<int64_t> parse_megabytes(std::string_view text) {
  ASSIGN_OR_RETURN(const auto parts, split_unit(text, "size", kSizeForms));
  const auto& [number, unit] = parts;
  if (unit.empty() || unit == "m" || unit == "mb" || unit == "mib") {
    return number;
  }
  if (unit == "g" || unit == "gb" || unit == "gib") {
    return scaled(number, 1024, text);
  }
  if (unit == "t" || unit == "tb" || unit == "tib") {
    return scaled(number, int64_t{1024} * 1024, text);
  }
  return base::fail_field("size", "'", text, "' is not a size: ", kSizeForms);
}

Result<PortPair> parse_port_pair(std::string_view text) {
  const size_t colon = text.find(':');
  const bool is_pair = colon != std::string_view::npos;
  const auto remote = base::parse_number<uint16_t>(is_pair ? text.substr(colon + 1) : text);
  const std::string_view here = text.substr(0, is_pair ? colon : text.size());
  const auto local = here.empty() ? 0 : base::parse_number<uint16_t>(here);
  if (!remote || *remote == 0 || !local) {
    return base::fail_field("port", "'", text, "' is not a port: write 80, 8080:80 or :80");
  }
  return PortPair{.local = *local, .remote = *remote};
}

Result<int64_t> parse_seconds(std::string_view text) {
  ASSIGN_OR_RETURN(const auto parts, split_unit(text, "time", kTimeForms));
  const auto& [number, unit] = parts;
  if (unit.empty() || unit == "s") {
    return number;
  }
  if (unit == "m" || unit == "min") {
    return scaled(number, 60, text);
  }
  if (unit == "h") {
    return scaled(number, int64_t{60} * 60, text);
  }
  if (unit == "d") {
    return scaled(number, int64_t{24} * 60 * 60, text);
  }
  return base::fail_field("time", "'", text, "' is not a time: ", kTimeForms);
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
