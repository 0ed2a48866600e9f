#include "compose/project.h"

#include <algorithm>
#include <array>

#include "base/text.h"
#include "compose/extends.h"
#include "compose/interpolation.h"
#include "compose/marks.h"
#include "compose/merge.h"
#include "compose/refusal.h"
#include "compose/values.h"
#include "definition/yaml.h"

namespace compose {
namespace {

using base::Result;
using wire::json::Object;
using wire::json::Value;

constexpr size_t kNameBytesMax = 63;
// All interpolated texts of one file together.
constexpr size_t kFileTextBytesMax = size_t{512} * 1024;
constexpr std::string_view kProfiles = "COMPOSE_PROFILES";

bool is_name(std::string_view name) {
  const auto fine = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.' || c == '-';
  };
  return !name.empty() && name.size() <= kNameBytesMax && name.front() != '.' &&
         name.front() != '-' && std::ranges::all_of(name, fine);
}

class Variables {
 public:
  explicit Variables(const model::EnvironmentMap& variables) : variables_(variables) {}

  Result<void> put_into(Value& value, const std::string& field) {
    if (value.is_string()) {
      ASSIGN_OR_RETURN(const std::string text, interpolate(std::string(value.get_string()),
                                                           variables_, Grammar::file, field));
      bytes_ += text.size();
      if (bytes_ > kFileTextBytesMax) {
        return refuse(field, "the file becomes longer than ", kFileTextBytesMax, " bytes");
      }
      value = text;
    } else if (value.is_array()) {
      size_t number = 0;
      for (Value& item : value.get_array()) {
        RETURN_IF_ERROR(put_into(item, base::cat(field, ".", number++)));
      }
    } else if (value.is_object()) {
      for (auto& [key, inner] : value.get_object()) {
        RETURN_IF_ERROR(put_into(inner, base::cat(field, ".", std::string_view(key))));
      }
    }
    return {};
  }

 private:
  const model::EnvironmentMap& variables_;
  size_t bytes_ = 0;
};

Result<Object> read_file(const Input& input, const std::string& text, const std::string& field) {
  static constexpr std::array kMarks{kReset, kOverride};
  if (text.size() > kFileBytesMax) {
    return refuse(field, "is longer than ", kFileBytesMax, " bytes");
  }
  auto parsed = definition::parse_yaml(text, kMarks);
  if (!parsed) {
    return refuse(field, parsed.error().message);
  }
  if (!parsed->is_object()) {
    return refuse(field, "must be a mapping");
  }
  RETURN_IF_ERROR(take_merge_keys(*parsed, ""));
  Variables variables(input.variables);
  Object file;
  for (auto& [key, value] : parsed->get_object()) {
    const std::string name(key);
    if (name.starts_with("x-")) {
      continue;
    }
    static constexpr std::string_view kKnown[] = {"services", "volumes", "networks", "configs",
                                                  "secrets",  "name",    "version"};
    if (std::ranges::find(kKnown, name) == std::end(kKnown)) {
      return refuse(name, "is not supported");
    }
    RETURN_IF_ERROR(variables.put_into(value, name));
    file[name] = std::move(value);
  }
  return file;
}

// Which of the services run, by their profiles.
Result<bool> is_wanted(const Object& service, const std::vector<std::string_view>& wanted,
                       const std::string& field) {
  const Value* const profiles = service.if_contains("profiles");
  if (profiles == nullptr || profiles->is_null()) {
    return true;
  }
  ASSIGN_OR_RETURN(const auto names, read_texts(*profiles, field + ".profiles"));
  return names.empty() || std::ranges::any_of(names, [&](const std::string& name) {
           return std::ranges::find(wanted, name) != wanted.end() ||
                  std::ranges::find(wanted, "*") != wanted.end();
         });
}

Result<Object> take_mapping(Object& file, std::string_view key) {
  Value* const value = file.if_contains(key);
  if (value == nullptr || value->is_null()) {
    return Object{};
  }
  if (!value->is_object()) {
    return refuse(key, "must be a mapping");
  }
  return std::move(value->get_object());
}

Result<void> put_main_first(Project& project, const std::string& wanted) {
  const std::string name = wanted.empty() ? "main" : wanted;
  const auto main =
      std::ranges::find_if(project.services, [&](const auto& one) { return one.first == name; });
  if (main != project.services.end()) {
    std::rotate(project.services.begin(), main, main + 1);
  } else if (!wanted.empty()) {
    return refuse("main", "there is no service '", wanted, "'");
  }
  return {};
}

}  // namespace

Result<Project> read_project(const Input& input) {
  if (input.files.empty() || input.files.size() > kFilesMax) {
    return refuse("files", "must hold 1 to ", kFilesMax, " files");
  }
  Project project;
  Object whole;
  for (size_t i = 0; i < input.files.size(); ++i) {
    ASSIGN_OR_RETURN(Object file, read_file(input, input.files[i], base::cat("files.", i)));
    const Value* const before = whole.if_contains("services");
    RETURN_IF_ERROR(take_extends(file, before == nullptr ? Object{} : before->get_object(), input,
                                 read_file, project.missing));
    RETURN_IF_ERROR(merge_file(whole, std::move(file)));
  }
  for (auto& [key, value] : whole) {
    drop_marks(value);
  }
  ASSIGN_OR_RETURN(Object services, take_mapping(whole, "services"));
  ASSIGN_OR_RETURN(project.volumes, take_mapping(whole, "volumes"));
  ASSIGN_OR_RETURN(project.networks, take_mapping(whole, "networks"));
  ASSIGN_OR_RETURN(project.configs, take_mapping(whole, "configs"));
  ASSIGN_OR_RETURN(project.secrets, take_mapping(whole, "secrets"));
  const auto asked = input.variables.find(std::string(kProfiles));
  const auto wanted = base::split(
      asked == input.variables.end() ? std::string_view() : std::string_view(asked->second), ',');
  for (auto& [key, value] : services) {
    const std::string name(key);
    const std::string field = base::cat("services.", name);
    if (!is_name(name)) {
      return refuse(field, "a service's name has 1 to ", kNameBytesMax,
                    " letters, digits, '.', '_' and '-'");
    }
    ASSIGN_OR_RETURN(const bool runs, is_wanted(value.get_object(), wanted, field));
    if (runs) {
      project.services.emplace_back(name, std::move(value.get_object()));
    } else {
      project.left_out.push_back(name);
    }
  }
  if (project.services.empty()) {
    return refuse("services", "there is none to run");
  }
  if (project.services.size() > kServicesMax) {
    return refuse("services", "more than ", kServicesMax, " services");
  }
  RETURN_IF_ERROR(put_main_first(project, input.main));
  return project;
}

}  // namespace compose
