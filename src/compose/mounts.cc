#include "compose/mounts.h"

#include <algorithm>

#include "base/text.h"
#include "compose/plan.h"
#include "compose/refusal.h"
#include "compose/values.h"

namespace compose {
namespace {

using base::Result;
using wire::json::Object;
using wire::json::Value;

constexpr int64_t kBytesPerMb = int64_t{1} << 20;
constexpr size_t kTargetBytesMax = 255;  // jail::kMountTargetMax
// What the sandbox itself has there nothing may hide.
constexpr std::string_view kOwn[] = {"proc", "sys", "dev"};

// Absolute, without ".", ".." and double slashes.
Result<std::string> read_target(std::string_view text, std::string_view field) {
  std::string out;
  size_t parts = 0;
  bool is_own = false;
  for (const std::string_view part : base::split(text, '/')) {
    if (part.empty() || part == ".") {
      continue;
    }
    if (part == "..") {
      return refuse(field, "'", text, "' holds '..'");
    }
    is_own = is_own || (parts == 0 && std::ranges::find(kOwn, part) != std::end(kOwn));
    ++parts;
    out += base::cat("/", part);
  }
  if (!text.starts_with('/') || parts == 0 || out.size() > kTargetBytesMax) {
    return refuse(field, "the place inside must be an absolute path of at most ", kTargetBytesMax,
                  " bytes");
  }
  if (is_own && out != "/dev/shm") {
    return refuse(field, "nothing can be mounted on '", out, "'");
  }
  return out;
}

class Mounts {
 public:
  Mounts(const Project& project, const std::string& service)
      : project_(project), service_(service) {}

  Result<void> add_short(std::string_view text, const std::string& field) {
    const auto parts = base::split(text, ':');
    model::Mount mount;
    if (parts.size() > 3) {
      return refuse(field, "must be VOLUME:PATH or VOLUME:PATH:ro");
    }
    const std::string_view source = parts.size() > 1 ? parts[0] : std::string_view();
    if (parts.size() == 1 && (text.starts_with('.') || text.starts_with('~'))) {
      return refuse_bind(field);
    }
    ASSIGN_OR_RETURN(mount.target, read_target(parts.size() > 1 ? parts[1] : parts[0], field));
    if (parts.size() == 3) {
      RETURN_IF_ERROR(read_options(parts[2], mount, field));
    }
    if (parts.size() > 1) {
      ASSIGN_OR_RETURN(mount.volume, named(source, field));
    } else {
      mount.volume = own_volume();
    }
    return add(std::move(mount), field);
  }

  Result<void> add_long(const Object& entry, const std::string& field) {
    model::Mount mount;
    std::string type;
    std::string source;
    for (const auto& [key, value] : entry) {
      const std::string where = base::cat(field, ".", std::string_view(key));
      if (key == "type") {
        ASSIGN_OR_RETURN(type, read_text(value, where));
      } else if (key == "source") {
        ASSIGN_OR_RETURN(source, read_text(value, where));
      } else if (key == "target") {
        ASSIGN_OR_RETURN(const std::string target, read_text(value, where));
        ASSIGN_OR_RETURN(mount.target, read_target(target, where));
      } else if (key == "read_only") {
        ASSIGN_OR_RETURN(mount.read_only, read_bool(value, where));
      } else if (key == "volume" || key == "tmpfs") {
        RETURN_IF_ERROR(read_details(value, mount, where));
      } else if (key != "consistency" && key != "bind") {
        return refuse(where, "is not supported");
      }
    }
    if (mount.target.empty()) {
      return refuse(field + ".target", "is missing");
    }
    if (type == "bind") {
      return refuse_bind(field);
    }
    if (type == "volume") {
      if (source.empty()) {
        mount.volume = own_volume();
      } else {
        ASSIGN_OR_RETURN(mount.volume, named(source, field));
      }
    } else if (type != "tmpfs") {
      return refuse(field + ".type", "must be volume or tmpfs");
    }
    return add(std::move(mount), field);
  }

  // "/run" or "/run:size=64m,mode=1777".
  Result<void> add_tmpfs(std::string_view text, const std::string& field) {
    model::Mount mount;
    const size_t colon = std::min(text.find(':'), text.size());
    ASSIGN_OR_RETURN(mount.target, read_target(text.substr(0, colon), field));
    if (colon < text.size()) {
      for (const std::string_view option : base::split(text.substr(colon + 1), ',')) {
        constexpr std::string_view kSize = "size=";
        if (option.starts_with(kSize)) {
          RETURN_IF_ERROR(read_size(Value(option.substr(kSize.size())), mount, field));
        } else if (option == "ro") {
          mount.read_only = true;
        } else if (option != "rw" && option != "mode=1777" && option != "mode=01777" &&
                   option != "nosuid" && option != "nodev") {
          return refuse(field, "the option '", option, "' is not supported");
        }
      }
    }
    return add(std::move(mount), field);
  }

  std::vector<model::Mount> take() { return std::move(mounts_); }

 private:
  static std::unexpected<base::Error> refuse_bind(std::string_view field) {
    return refuse(field,
                  "a file or folder of your machine cannot be mounted: build it into the "
                  "image or upload it");
  }

  // Of this service alone.
  [[nodiscard]] std::string own_volume() const {
    return base::cat(service_, "/", mounts_.size());  // no volume's name holds a slash
  }

  Result<std::string> named(std::string_view source, std::string_view field) const {
    if (source.starts_with('.') || source.starts_with('/') || source.starts_with('~')) {
      return refuse_bind(field);
    }
    if (!project_.volumes.contains(source)) {
      return refuse(field, "the volume '", source, "' is not in 'volumes'");
    }
    return std::string(source);
  }

  static Result<void> read_options(std::string_view options, model::Mount& mount,
                                   std::string_view field) {
    for (const std::string_view option : base::split(options, ',')) {
      if (option == "ro") {
        mount.read_only = true;
      } else if (option == "nocopy") {
        mount.copy = false;
      } else if (option != "rw" && option != "z" && option != "Z") {
        return refuse(field, "the option '", option, "' is not supported");
      }
    }
    return {};
  }

  static Result<void> read_size(const Value& value, model::Mount& mount, std::string_view field) {
    ASSIGN_OR_RETURN(const int64_t bytes, read_bytes(value, field));
    mount.size_mb = (bytes + kBytesPerMb - 1) / kBytesPerMb;
    return {};
  }

  static Result<void> read_details(const Value& value, model::Mount& mount,
                                   const std::string& field) {
    ASSIGN_OR_RETURN(const Object* const entries, read_mapping(value, field));
    for (const auto& [key, inner] : *entries) {
      const std::string where = base::cat(field, ".", std::string_view(key));
      if (key == "nocopy") {
        ASSIGN_OR_RETURN(const bool off, read_bool(inner, where));
        mount.copy = !off;
      } else if (key == "size") {
        RETURN_IF_ERROR(read_size(inner, mount, where));
      } else {
        return refuse(where, "is not supported");
      }
    }
    return {};
  }

  Result<void> add(model::Mount mount, std::string_view field) {
    for (const model::Mount& other : mounts_) {
      if (other.target == mount.target) {
        return refuse(field, "something is mounted on '", mount.target, "' already");
      }
    }
    if (mounts_.size() == kMountsMax) {
      return refuse(field, "more than ", kMountsMax, " mounts");
    }
    mounts_.push_back(std::move(mount));
    return {};
  }

  const Project& project_;
  const std::string& service_;
  std::vector<model::Mount> mounts_;
};

}  // namespace

Result<std::vector<model::Mount>> read_mounts(const Project& project, const std::string& service,
                                              const Value* volumes, const Value* tmpfs) {
  Mounts mounts(project, service);
  if (volumes != nullptr) {
    const std::string field = base::cat("services.", service, ".volumes");
    if (!volumes->is_array()) {
      return refuse(field, "must be a list");
    }
    size_t number = 0;
    for (const Value& item : volumes->get_array()) {
      const std::string where = base::cat(field, ".", number++);
      if (item.is_object()) {
        RETURN_IF_ERROR(mounts.add_long(item.get_object(), where));
      } else {
        ASSIGN_OR_RETURN(const std::string text, read_text(item, where));
        RETURN_IF_ERROR(mounts.add_short(text, where));
      }
    }
  }
  if (tmpfs != nullptr) {
    const std::string field = base::cat("services.", service, ".tmpfs");
    ASSIGN_OR_RETURN(const auto texts, read_texts(*tmpfs, field));
    for (const std::string& text : texts) {
      RETURN_IF_ERROR(mounts.add_tmpfs(text, field));
    }
  }
  std::vector<model::Mount> all = mounts.take();
  // What lies within another comes behind it.
  std::ranges::sort(all, {}, &model::Mount::target);
  return all;
}

Result<void> check_volumes(const Project& project) {
  for (const auto& [name, value] : project.volumes) {
    const std::string field = base::cat("volumes.", std::string_view(name));
    if (std::string_view(name).find('/') != std::string_view::npos) {
      return refuse(field, "a volume's name holds no '/'");
    }
    if (value.is_null()) {
      continue;
    }
    ASSIGN_OR_RETURN(const Object* const entries, read_mapping(value, field));
    for (const auto& [key, inner] : *entries) {
      const bool is_default = key == "driver" && scalar_text(inner) == "local";
      const bool is_off = key == "external" && scalar_text(inner) == "false";
      const bool is_empty = inner.is_null() || (inner.is_object() && inner.get_object().empty());
      if (key != "name" && key != "labels" && !is_default && !is_off && !is_empty) {
        return refuse(base::cat(field, ".", std::string_view(key)), "is not supported");
      }
    }
  }
  return {};
}

}  // namespace compose
