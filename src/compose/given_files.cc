#include "compose/given_files.h"

#include "base/text.h"
#include "compose/refusal.h"
#include "compose/values.h"

namespace compose {
namespace {

using base::cat;
using base::Result;
using wire::json::Array;
using wire::json::Object;
using wire::json::Value;

constexpr std::string_view kSecretsFolder = "/run/secrets/";
constexpr size_t kGivenFilesMax = 32;
constexpr size_t kPathBytesMax = 255;
constexpr uint32_t kModeMax = 0777;
constexpr int64_t kIdMax = 65'535;

std::string_view word(FileKind kind) { return kind == FileKind::secret ? "secrets" : "configs"; }

// Of the project: exactly one of them is there.
struct Entry {
  std::string field;
  std::optional<std::string> file, variable, content;
};

Result<Entry> find_entry(const Project& project, FileKind kind, const std::string& name,
                         const std::string& field) {
  const Object& entries = kind == FileKind::secret ? project.secrets : project.configs;
  const Value* const value = entries.if_contains(name);
  if (value == nullptr) {
    return refuse(field, "there is no '", name, "' among '", word(kind), "'");
  }
  Entry entry{.field = cat(word(kind), ".", name)};
  ASSIGN_OR_RETURN(const Object* const keys, read_mapping(*value, entry.field));
  for (const auto& [key, inner] : *keys) {
    const std::string where = cat(entry.field, ".", std::string_view(key));
    if (inner.is_null() || key == "name" || key == "labels" || key.starts_with("x-") ||
        (key == "external" && scalar_text(inner) == "false")) {
      continue;
    }
    if (key == "file") {
      ASSIGN_OR_RETURN(entry.file, read_text(inner, where));
    } else if (key == "environment") {
      ASSIGN_OR_RETURN(entry.variable, read_text(inner, where));
    } else if (key == "content" && kind == FileKind::config) {
      ASSIGN_OR_RETURN(entry.content, read_text(inner, where));
    } else {
      return refuse(where, "is not supported");
    }
  }
  if (int{entry.file.has_value()} + int{entry.variable.has_value()} +
          int{entry.content.has_value()} !=
      1) {
    return refuse(entry.field, "must have one of file",
                  kind == FileKind::secret ? " and" : ", content and", " environment");
  }
  return entry;
}

// Its text; nullopt where that is still to be given.
Result<std::optional<std::string>> text_of(const Entry& entry, const Input& input, bool complete,
                                           std::vector<std::string>& needed) {
  if (entry.content) {
    return entry.content;
  }
  const auto& texts = entry.file ? input.env_files : input.variables;
  const auto found = texts.find(entry.file ? *entry.file : *entry.variable);
  if (entry.file) {
    needed.push_back(*entry.file);
  }
  if (found != texts.end()) {
    return found->second;
  }
  if (!complete) {
    return std::nullopt;
  }
  return entry.file
             ? Result<std::optional<std::string>>(refuse(entry.field + ".file", "the text of '",
                                                         *entry.file,
                                                         "' is not given in 'env_files'"))
             : refuse(entry.field + ".environment", "there is no variable '", *entry.variable, "'");
}

// The digits are octal, however they are written: 0440, "0440", 0o440.
Result<uint32_t> read_mode(const Value& value, const std::string& field) {
  const std::string text = scalar_text(value).value_or("");
  const std::string_view digits =
      text.starts_with("0o") ? std::string_view(text).substr(2) : std::string_view(text);
  const auto mode = base::parse_number<uint32_t>(digits, 8);
  if (!mode || *mode > kModeMax) {
    return refuse(field, "must be an octal mode up to 0777");
  }
  return *mode;
}

Result<std::string> full_path(FileKind kind, const std::string& target, const std::string& field) {
  std::string path = target.starts_with('/')
                         ? target
                         : cat(kind == FileKind::secret ? kSecretsFolder : "/", target);
  for (const std::string_view part : base::split(std::string_view(path).substr(1), '/')) {
    if (part.empty() || part == "." || part == "..") {
      return refuse(field, "must be a path without '.' and '..'");
    }
  }
  if (path.size() > kPathBytesMax || path.contains('\0')) {
    return refuse(field, "must be a path of at most ", kPathBytesMax, " bytes");
  }
  return path;
}

// The long form's keys into `file`; the name of the project's entry.
Result<std::string> read_reference(const Object& keys, FileKind kind, const std::string& field,
                                   model::ServiceFile& file) {
  std::string source;
  std::string target;
  std::string uid;
  std::string gid;
  for (const auto& [key, inner] : keys) {
    const std::string where = cat(field, ".", std::string_view(key));
    if (key == "source") {
      ASSIGN_OR_RETURN(source, read_text(inner, where));
    } else if (key == "target") {
      ASSIGN_OR_RETURN(target, read_text(inner, where));
    } else if (key == "mode") {
      ASSIGN_OR_RETURN(file.mode, read_mode(inner, where));
    } else if (key == "uid") {
      ASSIGN_OR_RETURN(const int64_t id, read_integer(inner, where, 0, kIdMax));
      uid = cat(id);
    } else if (key == "gid") {
      ASSIGN_OR_RETURN(const int64_t id, read_integer(inner, where, 0, kIdMax));
      gid = cat(id);
    } else {
      return refuse(where, "is not supported");
    }
  }
  if (source.empty()) {
    return refuse(field + ".source", "is missing");
  }
  if (!uid.empty() || !gid.empty()) {
    file.owner = cat(uid.empty() ? "0" : uid, ":", gid.empty() ? "0" : gid);
  }
  ASSIGN_OR_RETURN(file.path, full_path(kind, target.empty() ? source : target, field + ".target"));
  return source;
}

}  // namespace

Result<std::vector<model::ServiceFile>> read_given_files(const Project& project, const Input& input,
                                                         FileKind kind, const Value& value,
                                                         const std::string& field, bool complete,
                                                         std::vector<std::string>& needed) {
  if (!value.is_array() || value.get_array().size() > kGivenFilesMax) {
    return refuse(field, "must be a list of at most ", kGivenFilesMax);
  }
  std::vector<model::ServiceFile> files;
  for (size_t i = 0; i < value.get_array().size(); ++i) {
    const Value& item = value.get_array()[i];
    const std::string where = cat(field, ".", i);
    model::ServiceFile file;
    std::string name;
    if (item.is_object()) {
      ASSIGN_OR_RETURN(name, read_reference(item.get_object(), kind, where, file));
    } else {
      ASSIGN_OR_RETURN(name, read_text(item, where));
      ASSIGN_OR_RETURN(file.path, full_path(kind, name, where));
    }
    ASSIGN_OR_RETURN(const Entry entry, find_entry(project, kind, name, where));
    ASSIGN_OR_RETURN(auto text, text_of(entry, input, complete, needed));
    file.content = std::move(text).value_or("");
    files.push_back(std::move(file));
  }
  return files;
}

Result<BuildSecretNeed> read_build_secret(const Project& project, const Value& value,
                                          const std::string& field) {
  BuildSecretNeed need;
  std::string name;
  if (value.is_object()) {
    for (const auto& [key, inner] : value.get_object()) {
      const std::string where = cat(field, ".", std::string_view(key));
      if (key == "source") {
        ASSIGN_OR_RETURN(name, read_text(inner, where));
      } else if (key == "target") {
        ASSIGN_OR_RETURN(need.id, read_text(inner, where));
      } else {
        return refuse(where, "is not supported");
      }
    }
  } else {
    ASSIGN_OR_RETURN(name, read_text(value, field));
  }
  ASSIGN_OR_RETURN(const Entry entry, find_entry(project, FileKind::secret, name, field));
  need.id = need.id.empty() ? name : need.id;
  need.file = entry.file.value_or("");
  need.variable = entry.variable.value_or("");
  return need;
}

}  // namespace compose
