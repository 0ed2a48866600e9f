// One image of the store as a value, its file in lib/images/index, and what a name stands for.
// Pure but for load and save.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/secret.h"
#include "node/images.h"
#include "wire/json.h"

namespace node {

struct StoredLayer {
  std::string diff_id;  // "sha256:..."
  int64_t bytes = 0;
};

struct StoredImage {
  std::string file;  // of the index
  std::string name;
  std::string digest;
  std::string platform;
  std::string source;
  int64_t created_ms = 0;
  int64_t last_used_ms = 0;
  int64_t saved_used_ms = 0;        // the last_used_ms on disk
  bool with_credentials = false;    // others must show theirs to the registry first
  std::vector<StoredLayer> layers;  // bottom first
  ImageConfig config;
  // Access that the registry accepted for this image since this process started.
  std::vector<std::pair<std::string, base::Secret>> proven;

  [[nodiscard]] int64_t size_bytes() const;
  [[nodiscard]] bool may_use(const model::RegistryAccess& access) const;
  void note_proven(const model::RegistryAccess& access);
};

// What the helper or a file says of a config; hostile, so checked in full.
Result<ImageConfig> parse_image_config(const wire::json::Object& object);
wire::json::Object to_json(const ImageConfig& config);
// As users see it: what `more_json` holds beside the rest.
wire::json::Object shown_config(const ImageConfig& config);

Result<StoredImage> parse_stored_image(std::string_view text);
std::string to_text(const StoredImage& image);

bool is_sha256_digest(std::string_view text);

}  // namespace node
