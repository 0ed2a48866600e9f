#include "config/documents.h"

#include <algorithm>

#include "base/log.h"
#include "base/text.h"

namespace config {
namespace {

constexpr size_t kHelpColumn = 27;
constexpr size_t kHelpColumns = 96;
constexpr std::string_view kSecret = "(secret)";

// `text` in lines of at most `columns`, the later ones after `indent` blanks.
std::string wrap(std::string_view text, size_t columns, std::string_view indent) {
  std::string out;
  size_t column = 0;
  for (const std::string_view word : base::split(text, ' ')) {
    if (column > 0 && column + 1 + word.size() > columns) {
      out += '\n';
      out += indent;
      column = 0;
    } else if (column > 0) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
  }
  return out;
}

std::string meaning(const Option& option) {
  std::string out(option.help);
  if (option.kind == Kind::choice) {
    out += base::cat(" (", option.choices, ")");
  }
  if (!option.standard.empty()) {
    out += base::cat("; default ", option.standard);
  }
  return out;
}

// "postgres://user:password@host": no password is shown, wherever it stands.
std::string without_password(const std::string& value) {
  const size_t scheme = value.find("://");
  const size_t at = value.rfind('@');
  if (scheme == std::string::npos || at == std::string::npos || at < scheme) {
    return value;
  }
  const size_t colon = value.find(':', scheme + 3);
  if (colon == std::string::npos || colon > at) {
    return value;
  }
  return base::cat(std::string_view(value).substr(0, colon + 1), kSecret,
                   std::string_view(value).substr(at));
}

void add_json(std::string& out, std::string_view key, std::string_view value) {
  out += base::cat(out.ends_with('{') ? "" : ", ", "\"", key, "\": ");
  base::append_json_string(out, value);
}

std::string_view kind_name(Kind kind) {
  switch (kind) {
    case Kind::text:
      return "text";
    case Kind::path:
      return "path";
    case Kind::address:
      return "address";
    case Kind::number:
      return "number";
    case Kind::decimal:
      return "decimal";
    case Kind::boolean:
      return "boolean";
    case Kind::choice:
      return "choice";
  }
  return "";
}

}  // namespace

std::string help_text(const Program& program) {
  std::string out = base::cat(program.name, ": ", program.summary, "\n\nusage: ", program.name,
                              " [COMMAND] [--OPTION VALUE]...\n");
  for (const Command& command : program.commands) {
    out += base::cat("  ", command.name, std::string(kHelpColumn - 2 - command.name.size(), ' '),
                     command.help, "\n");
  }
  const std::string indent(kHelpColumn, ' ');
  for (const Option& option : program.options) {
    if (!option.section.empty()) {
      out += base::cat("\n", option.section, ":\n");
    }
    std::string flag = base::cat("  --", option.name, " ", option.value);
    flag += flag.size() < kHelpColumn ? std::string(kHelpColumn - flag.size(), ' ')
                                      : base::cat("\n", indent);
    out += base::cat(flag, wrap(meaning(option), kHelpColumns - kHelpColumn, indent), "\n");
  }
  out += base::cat(
      "\nEverywhere:\n  --config FILE            lines \"key = value\"; default ", program.file,
      " where it exists\n  --version, --help\n\n"
      "An option is also a key of the file and a variable: --node-socket is node-socket and\n",
      program.variable_prefix,
      "NODE_SOCKET. A flag beats a variable, a variable the file.\n"
      "  config check [...]       whether file, variables and flags are right\n"
      "  config show [...]        every value and where it came from\n"
      "  config default           a file with every key, commented\n"
      "  config options           the table of options as JSON\n");
  return out;
}

std::string default_file(const Program& program) {
  constexpr size_t kColumns = 90;
  std::string out =
      base::cat("# ", program.name, ": ", program.summary,
                "\n# Lines \"key = value\"; what is commented out stands at its default. After a "
                "change:\n#   ",
                program.name, " config check\n");
  for (const Option& option : program.options) {
    if (!option.section.empty()) {
      out += base::cat("\n# --- ", option.section, " ---\n");
    }
    std::string help(option.help);
    if (option.kind == Kind::choice) {
      help += base::cat(" (", option.choices, ")");
    }
    out += base::cat("\n# ", wrap(help, kColumns, "# "), "\n#", option.name, " =",
                     option.standard.empty() ? "" : " ", option.standard, "\n");
  }
  return out;
}

std::string effective_text(const Settings& settings) {
  size_t widest = 0;
  for (const auto& setting : settings.all()) {
    widest = std::max(widest, setting.origin.size());
  }
  std::string out;
  for (const auto& setting : settings.all()) {
    const bool hides = setting.option->is_secret && !setting.value.empty();
    out += base::cat(setting.origin, std::string(widest - setting.origin.size(), ' '), "  ",
                     setting.option->name, " = ",
                     hides ? std::string(kSecret) : without_password(setting.value), "\n");
  }
  return out;
}

std::string options_json(const Program& program) {
  std::string out = "{";
  add_json(out, "program", program.name);
  add_json(out, "summary", program.summary);
  add_json(out, "file", program.file);
  add_json(out, "variable_prefix", program.variable_prefix);
  out += ", \"commands\": [";
  for (const Command& command : program.commands) {
    out += out.ends_with('[') ? "\n{" : ",\n{";
    add_json(out, "name", command.name);
    add_json(out, "help", command.help);
    out += "}";
  }
  out += "], \"options\": [";
  for (const Option& option : program.options) {
    out += out.ends_with('[') ? "\n{" : ",\n{";
    add_json(out, "name", option.name);
    add_json(out, "kind", kind_name(option.kind));
    add_json(out, "default", option.standard);
    add_json(out, "value", option.value);
    add_json(out, "help", option.help);
    add_json(out, "section", option.section);
    add_json(out, "choices", option.choices);
    add_json(out, "variable", variable_name(program, option.name));
    out += "}";
  }
  out += "]}\n";
  return out;
}

}  // namespace config
