#include "config/settings.h"

#include <stdlib.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/sys.h"
#include "config/file.h"

namespace config {
namespace {

constexpr std::string_view kFileOption = "config";
constexpr double kThousand = 1000;

struct Argument {
  std::string name;
  std::string value;
};

bool is_boolean_word(const std::string& word) {
  return parse_value(Option{.kind = Kind::boolean}, word).has_value();
}

// --name value, --name=value, and for yes or no --name alone.
std::vector<Argument> split_arguments(Settings& settings, const std::vector<std::string>& words,
                                      Problems& problems) {
  std::vector<Argument> out;
  for (size_t i = 0; i < words.size(); ++i) {
    std::string_view name = words[i];
    if (!name.starts_with("--")) {
      problems.push_back(base::cat("unexpected argument \"", name, "\""));
      continue;
    }
    name.remove_prefix(2);
    if (const size_t equals = name.find('='); equals != std::string_view::npos) {
      out.push_back({std::string(name.substr(0, equals)), std::string(name.substr(equals + 1))});
      continue;
    }
    const auto* setting = settings.find(name);
    const bool has_next = i + 1 < words.size();
    if (setting != nullptr && setting->option->kind == Kind::boolean &&
        (!has_next || !is_boolean_word(words[i + 1]))) {
      out.push_back({std::string(name), "yes"});
    } else if (has_next) {
      out.push_back({std::string(name), words[++i]});
    } else {
      problems.push_back(base::cat("--", name, ": needs a value"));
    }
  }
  return out;
}

void set(Settings& settings, std::string_view name, std::string_view value, std::string origin,
         std::string_view place, Problems& problems) {
  auto* setting = settings.find(name);
  if (setting == nullptr) {
    problems.push_back(base::cat(place, ": there is no such option"));
    return;
  }
  auto parsed = parse_value(*setting->option, value);
  if (!parsed) {
    problems.push_back(base::cat(place, ": ", parsed.error().message));
    return;
  }
  setting->value = std::move(*parsed);
  setting->origin = std::move(origin);
}

// The file to read; "" for none.
struct FileChoice {
  std::string path;
  bool is_named = false;  // by flag or variable
};

FileChoice choose_file(const Program& program, const std::vector<Argument>& arguments,
                       const Environment& environment) {
  FileChoice choice{.path = std::string(program.file)};
  if (const char* value = environment(variable_name(program, kFileOption)); value != nullptr) {
    choice = {.path = value, .is_named = true};
  }
  for (const Argument& argument : arguments) {
    if (argument.name == kFileOption) {
      choice = {.path = argument.value, .is_named = true};
    }
  }
  return choice;
}

void read_file(const FileChoice& choice, Settings& settings, Problems& problems) {
  if (choice.path.empty()) {
    return;
  }
  const auto text = base::sys::read_file(choice.path, kFileBytesMax);
  if (!text) {
    if (choice.is_named || text.error().errno_value != ENOENT) {
      problems.push_back(base::cat("configuration: ", text.error().message));
    }
    return;
  }
  for (const Line& line : parse_file(*text, choice.path, problems)) {
    const std::string place = base::cat(choice.path, ":", line.number);
    set(settings, line.key, line.value, place, base::cat(place, ": ", line.key), problems);
  }
}

}  // namespace

Settings::Settings(const Program& program) {
  for (const Option& option : program.options) {
    settings_.push_back({.option = &option, .value = std::string(option.standard)});
  }
}

const Settings::Setting* Settings::look(std::string_view name) const {
  const auto found = std::ranges::find_if(
      settings_, [name](const Setting& setting) { return setting.option->name == name; });
  return found == settings_.end() ? nullptr : &*found;
}

Settings::Setting* Settings::find(std::string_view name) {
  return const_cast<Setting*>(std::as_const(*this).look(name));
}

const Settings::Setting& Settings::get(std::string_view name, Kind kind) const {
  const Setting* setting = look(name);
  const bool is_text = kind == Kind::text;
  if (setting == nullptr || (!is_text && setting->option->kind != kind)) {
    ::abort();  // a name that the table does not have: a bug of the caller
  }
  return *setting;
}

const std::string& Settings::text(std::string_view name) const {
  return get(name, Kind::text).value;
}

int64_t Settings::number(std::string_view name) const {
  return base::parse_number<int64_t>(get(name, Kind::number).value).value_or(0);
}

int64_t Settings::thousandths(std::string_view name) const {
  return std::llround(::strtod(get(name, Kind::decimal).value.c_str(), nullptr) * kThousand);
}

bool Settings::boolean(std::string_view name) const {
  return get(name, Kind::boolean).value == "yes";
}

bool Settings::is_given(std::string_view name) const {
  return get(name, Kind::text).origin != "default";
}

Reading read_settings(const Program& program, const std::vector<std::string>& words,
                      const Environment& environment) {
  Reading out{.settings = Settings(program), .problems = {}};
  const auto arguments = split_arguments(out.settings, words, out.problems);
  read_file(choose_file(program, arguments, environment), out.settings, out.problems);
  for (const Option& option : program.options) {
    const std::string name = variable_name(program, option.name);
    if (const char* value = environment(name); value != nullptr) {
      set(out.settings, option.name, value, name, name, out.problems);
    }
  }
  for (const Argument& argument : arguments) {
    if (argument.name != kFileOption) {
      const std::string flag = base::cat("--", argument.name);
      set(out.settings, argument.name, argument.value, flag, flag, out.problems);
    }
  }
  return out;
}

}  // namespace config
