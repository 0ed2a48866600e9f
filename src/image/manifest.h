// Manifests and configs of images (OCI 1.x and docker schema 2): bytes in, checked values out.
// Pure. Bounded by the byte limits of the caller and the counts below; what breaks a rule is
// image_invalid, what fits no linux/amd64 is image_platform_mismatch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "image/failure.h"

namespace image {

inline constexpr size_t kManifestBytesMax = 4 << 20;  // the registries' own limit
inline constexpr size_t kConfigBytesMax = 8 << 20;
inline constexpr size_t kMoreBytesMax = 32 << 10;
inline constexpr size_t kLayersMax = 400;  // overlayfs takes 500 lower layers

struct Descriptor {
  std::string media_type;
  std::string digest;
  int64_t size = 0;
};

struct Manifest {
  Descriptor config;
  std::vector<Descriptor> layers;  // bottom first
};

// Either the manifest of one image or an index, of which only the entry to take is kept.
struct ManifestOrIndex {
  std::optional<Manifest> manifest;
  Descriptor chosen;  // of an index: a manifest or a further index
};

Result<ManifestOrIndex> parse_manifest(std::string_view bytes);

struct Config {
  std::vector<std::pair<std::string, std::string>> environment;
  std::string workdir;
  std::string user;
  std::vector<std::string> entrypoint;
  std::vector<std::string> cmd;
  std::vector<std::string> exposed_ports;
  // What a build on this image goes on with, as JSON: "labels", "volumes", "onbuild", "shell",
  // "stop_signal", "healthcheck" (the image's own object). What is not well-formed, or more than
  // kMoreBytesMax in all, is left out.
  std::string more_json = "{}";
  std::vector<std::string> diff_ids;  // bottom first
};

// Also refuses a config of another platform and a number of diff_ids that is not `layers`.
Result<Config> parse_config(std::string_view bytes, size_t layers);

}  // namespace image
