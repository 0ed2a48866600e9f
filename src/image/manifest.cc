#include "image/manifest.h"

#include <algorithm>
#include <array>

#include "image/digest.h"
#include "wire/json.h"

namespace image {
namespace {

using wire::json::Object;
using wire::json::Value;

constexpr size_t kIndexEntriesMax = 1000;
constexpr size_t kListEntriesMax = 10000;     // of env, cmd, entrypoint, ports
constexpr size_t kConfigTextMax = 128 << 10;  // all of a config's text that is kept
constexpr int64_t kBlobBytesMax = int64_t{1} << 40;
constexpr std::string_view kOs = "linux";
constexpr std::string_view kArchitecture = "amd64";

const Value* find(const Object& object, std::string_view name) {
  const Value* value = object.if_contains(name);
  return value == nullptr || value->is_null() ? nullptr : value;
}

std::string text_of(const Object& object, std::string_view name) {
  const Value* value = find(object, name);
  return value != nullptr && value->is_string() ? std::string(value->get_string()) : "";
}

Result<Object> parse_object(std::string_view bytes, std::string_view what) {
  auto object = wire::json::parse_object(bytes);
  if (!object) {
    return fail_image(kInvalid, "the ", what, " is not valid JSON: ", object.error().message);
  }
  return std::move(*object);
}

Result<Descriptor> parse_descriptor(const Value& value, std::string_view what) {
  if (!value.is_object()) {
    return fail_image(kInvalid, "the manifest's ", what, " is not an object");
  }
  const Object& object = value.get_object();
  Descriptor descriptor{.media_type = text_of(object, "mediaType"),
                        .digest = text_of(object, "digest")};
  if (!is_sha256(descriptor.digest)) {
    return fail_image(kInvalid, "the manifest's ", what, " has no sha256 digest");
  }
  const Value* size = find(object, "size");
  if (size == nullptr || !size->is_int64() || size->get_int64() < 0 ||
      size->get_int64() > kBlobBytesMax) {
    return fail_image(kInvalid, "the manifest's ", what, " ", descriptor.digest, " has no size");
  }
  descriptor.size = size->get_int64();
  return descriptor;
}

Result<void> check_layer(const Descriptor& layer, const Object& object) {
  const bool foreign =
      layer.media_type.contains("foreign") || layer.media_type.contains("nondistributable");
  if (foreign || find(object, "urls") != nullptr) {
    return fail_image(kInvalid, "layer ", layer.digest, " is not distributable (", layer.media_type,
                      "): its content is not in the registry");
  }
  if (layer.media_type.contains("encrypted")) {
    return fail_image(kInvalid, "layer ", layer.digest, " is encrypted");
  }
  return {};
}

Result<Manifest> parse_image_manifest(const Object& object) {
  Manifest manifest;
  const Value* config = find(object, "config");
  const Value* layers = find(object, "layers");
  if (config == nullptr || layers == nullptr || !layers->is_array()) {
    return fail_image(kInvalid, "the manifest has no config or no layers");
  }
  ASSIGN_OR_RETURN(manifest.config, parse_descriptor(*config, "config"));
  if (layers->get_array().size() > kLayersMax) {
    return fail_image(kInvalid, "the image has ", layers->get_array().size(), " layers, more than ",
                      kLayersMax);
  }
  for (const Value& value : layers->get_array()) {
    ASSIGN_OR_RETURN(auto layer, parse_descriptor(value, "layer"));
    RETURN_IF_ERROR(check_layer(layer, value.get_object()));
    manifest.layers.push_back(std::move(layer));
  }
  return manifest;
}

bool fits_platform(const Object& entry) {
  const Value* value = find(entry, "platform");
  if (value == nullptr) {
    return true;  // an index inside an index has none
  }
  if (!value->is_object()) {
    return false;
  }
  const Object& platform = value->get_object();
  const std::string variant = text_of(platform, "variant");
  return text_of(platform, "os") == kOs && text_of(platform, "architecture") == kArchitecture &&
         (variant.empty() || variant == "v1");
}

Result<Descriptor> choose(const wire::json::Array& entries) {
  if (entries.size() > kIndexEntriesMax) {
    return fail_image(kInvalid, "the index has more than ", kIndexEntriesMax, " entries");
  }
  const Value* without_platform = nullptr;
  std::string offered;
  for (const Value& value : entries) {
    if (!value.is_object()) {
      return fail_image(kInvalid, "an entry of the index is not an object");
    }
    const Value* platform = find(value.get_object(), "platform");
    if (platform == nullptr) {
      without_platform = without_platform == nullptr ? &value : without_platform;
    } else if (fits_platform(value.get_object())) {
      return parse_descriptor(value, "index entry");
    } else if (platform->is_object() && offered.size() < 200) {
      offered += cat(offered.empty() ? "" : ", ", text_of(platform->get_object(), "os"), "/",
                     text_of(platform->get_object(), "architecture"));
    }
  }
  if (without_platform != nullptr) {
    return parse_descriptor(*without_platform, "index entry");
  }
  return fail_image(kPlatformMismatch, "no image for linux/amd64; the index offers ",
                    offered.empty() ? "nothing" : offered);
}

Result<std::vector<std::string>> parse_texts(const Object& object, std::string_view name,
                                             size_t& budget) {
  std::vector<std::string> out;
  const Value* value = find(object, name);
  if (value == nullptr) {
    return out;
  }
  // Old docker wrote a lone string where a list is meant.
  if (value->is_string()) {
    out.emplace_back(value->get_string());
  } else if (value->is_array() && value->get_array().size() <= kListEntriesMax) {
    for (const Value& item : value->get_array()) {
      if (!item.is_string()) {
        return fail_image(kInvalid, "the config's ", name, " is not a list of texts");
      }
      out.emplace_back(item.get_string());
    }
  } else {
    return fail_image(kInvalid, "the config's ", name, " is not a list of texts");
  }
  for (const auto& text : out) {
    if (text.size() > budget || text.contains('\0')) {
      return fail_image(kInvalid, "the config's ", name, " is too large or holds a NUL");
    }
    budget -= text.size();
  }
  return out;
}

Result<void> parse_runtime(const Object& object, Config& config) {
  size_t budget = kConfigTextMax;
  ASSIGN_OR_RETURN(const auto variables, parse_texts(object, "Env", budget));
  for (const auto& variable : variables) {
    const size_t equals = variable.find('=');
    if (equals != std::string::npos && equals > 0) {
      config.environment.emplace_back(variable.substr(0, equals), variable.substr(equals + 1));
    }
  }
  ASSIGN_OR_RETURN(config.entrypoint, parse_texts(object, "Entrypoint", budget));
  ASSIGN_OR_RETURN(config.cmd, parse_texts(object, "Cmd", budget));
  config.workdir = text_of(object, "WorkingDir");
  config.user = text_of(object, "User");
  if (config.workdir.size() + config.user.size() > budget || config.workdir.contains('\0') ||
      config.user.contains('\0')) {
    return fail_image(kInvalid, "the config's WorkingDir or User is too large or holds a NUL");
  }
  const Value* ports = find(object, "ExposedPorts");
  if (ports != nullptr && ports->is_object()) {
    for (const auto& port : ports->get_object()) {
      if (config.exposed_ports.size() < kListEntriesMax && port.key().size() < budget) {
        budget -= port.key().size();
        config.exposed_ports.emplace_back(port.key());
      }
    }
  }
  return {};
}

bool is_text_map(const Value& value) {
  const auto is_text = [](const auto& entry) { return entry.value().is_string(); };
  return value.is_object() && std::ranges::all_of(value.get_object(), is_text);
}

bool is_text_list(const Value& value) {
  const auto is_text = [](const Value& item) { return item.is_string(); };
  return value.is_array() && std::ranges::all_of(value.get_array(), is_text);
}

// {"/data":{}} is how an image writes a set.
bool is_set(const Value& value) { return value.is_object(); }
bool is_text(const Value& value) { return value.is_string(); }

bool is_healthcheck(const Value& value) {
  const Value* test = value.is_object() ? find(value.get_object(), "Test") : nullptr;
  return test != nullptr && is_text_list(*test);
}

std::string more_of(const Object& object) {
  struct Part {
    std::string_view theirs;
    std::string_view ours;
    bool (*fits)(const Value&);
  };
  constexpr std::array kParts{Part{"Healthcheck", "healthcheck", is_healthcheck},
                              Part{"StopSignal", "stop_signal", is_text},
                              Part{"Shell", "shell", is_text_list},
                              Part{"OnBuild", "onbuild", is_text_list},
                              Part{"Volumes", "volumes", is_set},
                              Part{"Labels", "labels", is_text_map}};
  Object more;
  size_t budget = kMoreBytesMax;
  for (const Part& part : kParts) {
    const Value* value = find(object, part.theirs);
    if (value == nullptr || !part.fits(*value)) {
      continue;
    }
    const size_t size = part.ours.size() + wire::json::serialize(*value).size() + 4;
    if (size < budget) {
      budget -= size;
      more[part.ours] = *value;
    }
  }
  return wire::json::serialize(more);
}

}  // namespace

Result<ManifestOrIndex> parse_manifest(std::string_view bytes) {
  ASSIGN_OR_RETURN(const Object object, parse_object(bytes, "manifest"));
  ManifestOrIndex out;
  const Value* entries = find(object, "manifests");
  if (entries != nullptr && entries->is_array()) {
    ASSIGN_OR_RETURN(out.chosen, choose(entries->get_array()));
    return out;
  }
  const Value* version = find(object, "schemaVersion");
  if (version == nullptr || !version->is_int64() || version->get_int64() != 2) {
    return fail_image(kInvalid, "manifests of schema version 2 only are supported");
  }
  ASSIGN_OR_RETURN(out.manifest, parse_image_manifest(object));
  return out;
}

Result<Config> parse_config(std::string_view bytes, size_t layers) {
  ASSIGN_OR_RETURN(const Object object, parse_object(bytes, "image config"));
  const std::string os = text_of(object, "os");
  const std::string architecture = text_of(object, "architecture");
  if (os != kOs || architecture != kArchitecture) {
    return fail_image(kPlatformMismatch, "no image for linux/amd64; the image's config says ", os,
                      "/", architecture);
  }
  Config config;
  const Value* runtime = find(object, "config");
  if (runtime != nullptr && runtime->is_object()) {
    RETURN_IF_ERROR(parse_runtime(runtime->get_object(), config));
    config.more_json = more_of(runtime->get_object());
  }
  const Value* root = find(object, "rootfs");
  const Value* ids =
      root != nullptr && root->is_object() ? find(root->get_object(), "diff_ids") : nullptr;
  if (ids != nullptr && ids->is_array()) {
    for (const Value& id : ids->get_array()) {
      if (!id.is_string() || !is_sha256(std::string_view(id.get_string()))) {
        return fail_image(kInvalid, "the image config has a diff_id that is no sha256 digest");
      }
      config.diff_ids.emplace_back(id.get_string());
    }
  }
  if (config.diff_ids.size() != layers) {
    return fail_image(kInvalid, "the image has ", layers, " layers but its config names ",
                      config.diff_ids.size());
  }
  return config;
}

}  // namespace image
