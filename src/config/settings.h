// Settings: the effective value of every option of a program, and where it came from. A flag
// beats a variable, a variable the file, the file the default. Every value is of its option's
// kind and range. Values, copied freely.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/option.h"

namespace config {

class Settings {
 public:
  explicit Settings(const Program& program);

  // The option must be in the program's table and of that kind; anything else is a bug and aborts.
  [[nodiscard]] const std::string& text(std::string_view name) const;
  [[nodiscard]] int64_t number(std::string_view name) const;
  [[nodiscard]] int64_t thousandths(std::string_view name) const;
  [[nodiscard]] bool boolean(std::string_view name) const;

  struct Setting {
    const Option* option = nullptr;
    std::string value;
    std::string origin = "default";  // "--listen", "SANDBOX_GATEWAY_LISTEN", "FILE:12"
  };
  [[nodiscard]] const std::vector<Setting>& all() const { return settings_; }
  // Null for what is no option.
  Setting* find(std::string_view name);
  // Whether anything but the default gave it.
  [[nodiscard]] bool is_given(std::string_view name) const;

 private:
  [[nodiscard]] const Setting& get(std::string_view name, Kind kind) const;
  [[nodiscard]] const Setting* look(std::string_view name) const;

  std::vector<Setting> settings_;
};

// What is not right, one sentence each, with its place ("FILE:12: shells: ...").
using Problems = std::vector<std::string>;
// The environment: the value of a variable, or null.
using Environment = std::function<const char*(const std::string& name)>;

struct Reading {
  Settings settings;
  Problems problems;  // where there is one, the settings are not to be used
};

// Everything that can be given: `--config FILE` (or PREFIX_CONFIG; "" for none) and the options.
// The program's standard file may be absent, a named one may not.
Reading read_settings(const Program& program, const std::vector<std::string>& arguments,
                      const Environment& environment);

}  // namespace config
