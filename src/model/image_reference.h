// Names of images: a registry reference in its normalised form, and the names of imports. Pure.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

namespace model {

inline constexpr size_t kImageNameBytesMax = 512;       // a reference as written
inline constexpr size_t kLocalImageNameBytesMax = 200;  // an import's name

// registry/repository[:tag][@digest]; a reference has a tag, a digest or both (the digest rules).
struct ImageReference {
  std::string registry;    // "docker.io", "localhost:5000", "[::1]:5000"
  std::string repository;  // "library/debian"
  std::string tag;
  std::string digest;  // "sha256:<64 hex>" or ""

  // "docker.io/library/debian:latest": what prefixes are matched against and images are keyed by.
  [[nodiscard]] std::string normalised() const;
};

// As docker reads it: no registry is docker.io, no folder there is library/, no tag is latest.
// 422 invalid_field (field `image`) for what is no reference.
base::Result<ImageReference> parse_image_reference(std::string_view text);

// Whether `text` may name an import: lower-case path components and an optional tag, and a first
// component that is no registry's host ("debian-demo", "team/demo:2").
bool is_local_image_name(std::string_view text);
// "build:" and 64 hexadecimal digits: what an image build made. Such names are the gateway's own.
bool is_build_name(std::string_view text);
inline constexpr std::string_view kBuildNamePrefix = "build:";
// "dir:/absolute" or "tar:/absolute": an image on the node's own disk, where the operator allows.
bool is_local_image_path(std::string_view text);

}  // namespace model
