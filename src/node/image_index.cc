#include "node/image_index.h"

#include <algorithm>

namespace node {
namespace {

using wire::json::Array;
using wire::json::Object;
using Texts = std::vector<std::string>;

constexpr size_t kProvenMax = 64;  // teams that share one private image
constexpr std::string_view kDigestPrefix = "sha256:";
constexpr size_t kDigestHexBytes = 64;
constexpr size_t kMoreBytesMax = 32 << 10;  // as in image/manifest.h

Array list(const Texts& texts) { return Array(texts.begin(), texts.end()); }

}  // namespace

int64_t StoredImage::size_bytes() const {
  int64_t sum = 0;
  for (const auto& layer : layers) {
    sum += layer.bytes;
  }
  return sum;
}

bool StoredImage::may_use(const model::RegistryAccess& access) const {
  return !with_credentials || std::ranges::any_of(proven, [&](const auto& known) {
    return known.first == access.username && known.second.reveal() == access.password.reveal();
  });
}

void StoredImage::note_proven(const model::RegistryAccess& access) {
  if (access.username.empty() && access.password.empty()) {
    with_credentials = false;  // anybody may have it
    proven.clear();
  } else if (with_credentials && !may_use(access)) {
    if (proven.size() >= kProvenMax) {
      proven.erase(proven.begin());
    }
    proven.emplace_back(access.username, access.password);
  }
}

bool is_sha256_digest(std::string_view text) {
  const auto is_hex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  return text.starts_with(kDigestPrefix) && text.size() == kDigestPrefix.size() + kDigestHexBytes &&
         std::ranges::all_of(text.substr(kDigestPrefix.size()), is_hex);
}

Result<ImageConfig> parse_image_config(const Object& object) {
  wire::json::Reader reader(object, "config");
  ImageConfig config;
  ASSIGN_OR_RETURN(config.environment, reader.required<model::EnvironmentMap>("env"));
  ASSIGN_OR_RETURN(config.workdir, reader.required<std::string>("workdir"));
  ASSIGN_OR_RETURN(config.user, reader.required<std::string>("user"));
  ASSIGN_OR_RETURN(config.entrypoint, reader.required<Texts>("entrypoint"));
  ASSIGN_OR_RETURN(config.cmd, reader.required<Texts>("cmd"));
  ASSIGN_OR_RETURN(config.exposed_ports, reader.required<Texts>("exposed_ports"));
  ASSIGN_OR_RETURN(auto more, reader.optional<std::string>("more"));
  if (more) {
    if (more->size() > kMoreBytesMax || !wire::json::parse_object(*more)) {
      return base::fail(base::ErrorCode::malformed, "an image's further configuration is broken");
    }
    config.more_json = std::move(*more);
  }
  RETURN_IF_ERROR(reader.finish());
  return config;
}

Object to_json(const ImageConfig& config) {
  Object environment;
  for (const auto& [name, value] : config.environment) {
    environment[name] = value;
  }
  return {{"env", std::move(environment)}, {"workdir", config.workdir},
          {"user", config.user},           {"entrypoint", list(config.entrypoint)},
          {"cmd", list(config.cmd)},       {"exposed_ports", list(config.exposed_ports)},
          {"more", config.more_json}};
}

Object shown_config(const ImageConfig& config) {
  Object object = to_json(config);
  object.erase("more");
  if (const auto more = wire::json::parse_object(config.more_json)) {
    for (const auto& [name, value] : *more) {
      object.emplace(name, value);
    }
  }
  return object;
}

Result<StoredImage> parse_stored_image(std::string_view text) {
  ASSIGN_OR_RETURN(const Object object, wire::json::parse_object(text));
  wire::json::Reader reader(object);
  StoredImage image;
  ASSIGN_OR_RETURN(image.name, reader.required<std::string>("name"));
  ASSIGN_OR_RETURN(image.digest, reader.required<std::string>("digest"));
  ASSIGN_OR_RETURN(image.platform, reader.required<std::string>("platform"));
  ASSIGN_OR_RETURN(image.source, reader.required<std::string>("source"));
  ASSIGN_OR_RETURN(image.created_ms, reader.required<int64_t>("created_ms"));
  ASSIGN_OR_RETURN(image.last_used_ms, reader.required<int64_t>("last_used_ms"));
  ASSIGN_OR_RETURN(image.with_credentials, reader.required<bool>("with_credentials"));
  ASSIGN_OR_RETURN(const auto layers, reader.required<Array>("layers"));
  ASSIGN_OR_RETURN(const auto config, reader.required<Object>("config"));
  for (const auto& value : layers) {
    if (!value.is_object()) {
      return base::fail(base::ErrorCode::malformed, "a layer is no object");
    }
    wire::json::Reader layer_reader(value.get_object(), "layers");
    StoredLayer layer;
    ASSIGN_OR_RETURN(layer.diff_id, layer_reader.required<std::string>("diff_id"));
    ASSIGN_OR_RETURN(layer.bytes, layer_reader.required<int64_t>("bytes"));
    if (!is_sha256_digest(layer.diff_id)) {
      return base::fail(base::ErrorCode::malformed, "a layer has no digest");
    }
    image.layers.push_back(std::move(layer));
  }
  ASSIGN_OR_RETURN(image.config, parse_image_config(config));
  image.saved_used_ms = image.last_used_ms;
  return image;
}

std::string to_text(const StoredImage& image) {
  Array layers;
  for (const auto& layer : image.layers) {
    layers.push_back(Object{{"diff_id", layer.diff_id}, {"bytes", layer.bytes}});
  }
  return wire::json::serialize(Object{{"name", image.name},
                                      {"digest", image.digest},
                                      {"platform", image.platform},
                                      {"source", image.source},
                                      {"created_ms", image.created_ms},
                                      {"last_used_ms", image.last_used_ms},
                                      {"with_credentials", image.with_credentials},
                                      {"layers", std::move(layers)},
                                      {"config", to_json(image.config)}}) +
         "\n";
}

}  // namespace node
