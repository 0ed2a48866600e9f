#include "compose/extends.h"

#include <map>

#include "compose/merge.h"
#include "compose/refusal.h"
#include "compose/values.h"

namespace compose {
namespace {

using base::cat;
using base::Result;
using wire::json::Object;
using wire::json::Value;

// A service on one on one ... and files in files.
constexpr size_t kDepthMax = 16;
// Of one file, those that are extended by others among them.
constexpr size_t kResolvedMax = 64;

const Object* services_of(const Object& file) {
  const Value* const services = file.if_contains("services");
  return services != nullptr && services->is_object() ? &services->get_object() : nullptr;
}

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash + 1);
}

void move_path(Value& path, const std::string& folder) {
  if (path.is_string() && !path.get_string().starts_with("/")) {
    path = folder + std::string(path.get_string());
  }
}

// Paths of a file in another folder, from where the project is.
void move_paths(Object& service, const std::string& folder) {
  if (folder.empty()) {
    return;
  }
  Value* const build = service.if_contains("build");
  if (build != nullptr && build->is_object()) {
    Object& keys = build->get_object();
    if (!keys.contains("context")) {
      keys["context"] = ".";
    }
    move_path(keys["context"], folder);
  }
  Value* const files = service.if_contains("env_file");
  if (files != nullptr && files->is_array()) {
    for (Value& file : files->get_array()) {
      move_path(file.is_object() ? file.get_object()["path"] : file, folder);
    }
  }
}

class Extender {
 public:
  Extender(const Object& before, const Input& input, FileReader read,
           std::vector<std::string>& missing)
      : before_(before), input_(input), read_(read), missing_(missing) {}

  // What `service` is with all that it extends. `folder`: of the file that it stands in.
  Result<Object> resolve(const std::string& name, const Object& service, const Object& file,
                         const std::string& folder, size_t depth) {
    Object own = service;
    RETURN_IF_ERROR(normalise_service(own, cat("services.", name)));
    move_paths(own, folder);
    const Value* const extends = service.if_contains("extends");
    if (extends == nullptr || extends->is_null()) {
      return own;
    }
    own.stable_erase("extends");
    const std::string field = cat("services.", name, ".extends");
    if (depth > kDepthMax || ++resolved_ > kResolvedMax) {
      return refuse(field, "a ring, more than ", kDepthMax, " deep, or more than ", kResolvedMax,
                    " of them");
    }
    ASSIGN_OR_RETURN(const Source source, read_source(*extends, field, folder));
    if (source.file.empty()) {
      return put_over(source, file, folder, std::move(own), field, depth);
    }
    const auto text = input_.env_files.find(source.file);
    if (text == input_.env_files.end()) {
      missing_.push_back(source.file);
      return own;
    }
    auto other = files_.find(source.file);
    if (other == files_.end()) {
      ASSIGN_OR_RETURN(Object read, read_(input_, text->second, cat(field, " ", source.file)));
      other = files_.emplace(source.file, std::move(read)).first;
    }
    return put_over(source, other->second, folder_of(source.file), std::move(own), field, depth);
  }

 private:
  struct Source {
    std::string service, file;
  };

  static Result<Source> read_source(const Value& value, const std::string& field,
                                    const std::string& folder) {
    Source source;
    if (!value.is_object()) {
      ASSIGN_OR_RETURN(source.service, read_text(value, field));
      return source;
    }
    for (const auto& [key, inner] : value.get_object()) {
      const std::string where = cat(field, ".", std::string_view(key));
      if (key == "service") {
        ASSIGN_OR_RETURN(source.service, read_text(inner, where));
      } else if (key == "file") {
        ASSIGN_OR_RETURN(source.file, read_text(inner, where));
      } else {
        return refuse(where, "is not supported");
      }
    }
    if (source.service.empty()) {
      return refuse(field + ".service", "is missing");
    }
    if (!source.file.empty() && !source.file.starts_with('/')) {
      source.file.insert(0, folder);
    }
    return source;
  }

  Result<Object> put_over(const Source& source, const Object& file, const std::string& folder,
                          Object own, const std::string& field, size_t depth) {
    const Object* const services = services_of(file);
    const Value* base = services == nullptr ? nullptr : services->if_contains(source.service);
    if (base == nullptr && source.file.empty()) {
      base = before_.if_contains(source.service);
    }
    if (base == nullptr || !base->is_object()) {
      return refuse(field, "there is no service '", source.service, "'");
    }
    ASSIGN_OR_RETURN(Object whole,
                     resolve(source.service, base->get_object(), file, folder, depth + 1));
    RETURN_IF_ERROR(merge_service(whole, std::move(own), field));
    return whole;
  }

  const Object& before_;
  const Input& input_;
  FileReader read_;
  std::vector<std::string>& missing_;
  std::map<std::string, Object> files_;  // that were read, by their paths
  size_t resolved_ = 0;
};

}  // namespace

Result<void> take_extends(Object& file, const Object& before, const Input& input, FileReader read,
                          std::vector<std::string>& missing) {
  const Object* const services = services_of(file);
  if (services == nullptr) {
    return {};
  }
  Extender extender(before, input, read, missing);
  Object resolved;
  for (const auto& [key, value] : *services) {
    const std::string name(key);
    if (!value.is_object() || !value.get_object().contains("extends")) {
      resolved[name] = value;
      continue;
    }
    ASSIGN_OR_RETURN(resolved[name], extender.resolve(name, value.get_object(), file, "", 1));
  }
  file["services"] = std::move(resolved);
  return {};
}

}  // namespace compose
