#include "model/image_reference.h"

#include <algorithm>
#include <vector>

#include "base/host.h"

namespace model {
namespace {

using base::cat;
using base::ErrorCode;
using base::Result;

constexpr size_t kTagBytesMax = 128;         // the OCI distribution specification's
constexpr size_t kRepositoryBytesMax = 255;  // the registries' common limit
constexpr size_t kDigestHexBytes = 64;
constexpr size_t kPathBytesMax = 4095;  // PATH_MAX without its NUL
constexpr std::string_view kDigestPrefix = "sha256:";

bool is_lower_or_digit(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }
bool is_alphanumeric(char c) { return is_lower_or_digit(c) || (c >= 'A' && c <= 'Z'); }

// [a-z0-9]+ parts joined by ".", "_", "__" or any number of "-".
bool is_component(std::string_view text) {
  if (text.empty() || !is_lower_or_digit(text.front()) || !is_lower_or_digit(text.back())) {
    return false;
  }
  for (size_t i = 0; i < text.size(); ++i) {
    if (is_lower_or_digit(text[i]) || text[i] == '-') {
      continue;
    }
    const bool doubled = text[i] == '_' && text[i + 1] == '_';
    const char next = doubled ? text[i + 2] : text[i + 1];
    const bool joins = text[i] == '.' || text[i] == '_';
    if (!joins || i == 0 || !is_lower_or_digit(next) || !is_lower_or_digit(text[i - 1])) {
      return false;
    }
    i += doubled ? 1 : 0;
  }
  return true;
}

bool is_path(std::string_view text) {
  const auto parts = base::split(text, '/');
  return text.size() <= kRepositoryBytesMax && std::ranges::all_of(parts, is_component);
}

bool is_tag(std::string_view text) {
  const auto allowed = [](char c) {
    return is_alphanumeric(c) || c == '_' || c == '.' || c == '-';
  };
  return !text.empty() && text.size() <= kTagBytesMax && text.front() != '.' &&
         text.front() != '-' && std::ranges::all_of(text, allowed);
}

bool is_digest(std::string_view text) {
  const auto is_hex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  return text.starts_with(kDigestPrefix) && text.size() == kDigestPrefix.size() + kDigestHexBytes &&
         std::ranges::all_of(text.substr(kDigestPrefix.size()), is_hex);
}

bool is_host_label(std::string_view text) {
  return !text.empty() && is_alphanumeric(text.front()) && is_alphanumeric(text.back()) &&
         std::ranges::all_of(text, [](char c) { return is_alphanumeric(c) || c == '-'; });
}

bool is_registry(std::string_view text) {
  std::string_view host = text;
  if (text.starts_with('[')) {
    const size_t end = text.find(']');
    if (end == std::string_view::npos || end < 3) {
      return false;
    }
    const auto inside = text.substr(1, end - 1);
    const auto rest = text.substr(end + 1);
    const auto allowed = [](char c) {
      return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F') || c == ':';
    };
    return std::ranges::all_of(inside, allowed) &&
           (rest.empty() || (rest.front() == ':' && base::parse_port(rest.substr(1))));
  }
  if (const size_t colon = text.find(':'); colon != std::string_view::npos) {
    host = text.substr(0, colon);
    if (!base::parse_port(text.substr(colon + 1))) {
      return false;
    }
  }
  return std::ranges::all_of(base::split(host, '.'), is_host_label);
}

// Whether the part before the first slash names a registry, by docker's rule.
bool looks_like_registry(std::string_view text) {
  const auto is_upper = [](char c) { return c >= 'A' && c <= 'Z'; };
  return text.find_first_of(".:[") != std::string_view::npos || text == "localhost" ||
         std::ranges::any_of(text, is_upper);
}

std::unexpected<base::Error> invalid(std::string_view text) {
  std::string shown(text.substr(0, 100));
  return base::fail_field("image", "\"", shown,
                          "\" is no image reference ([registry/]repository[:tag][@sha256:digest], "
                          "lower case)");
}

}  // namespace

std::string ImageReference::normalised() const {
  std::string out = cat(registry, "/", repository);
  if (!tag.empty()) {
    out += cat(":", tag);
  }
  if (!digest.empty()) {
    out += cat("@", digest);
  }
  return out;
}

Result<ImageReference> parse_image_reference(std::string_view text) {
  if (text.empty() || text.size() > kImageNameBytesMax) {
    return invalid(text);
  }
  ImageReference reference;
  std::string_view rest = text;
  if (const size_t at = rest.find('@'); at != std::string_view::npos) {
    reference.digest = rest.substr(at + 1);
    rest = rest.substr(0, at);
    if (!is_digest(reference.digest)) {
      return invalid(text);
    }
  }
  const size_t slash = rest.find('/');
  if (slash != std::string_view::npos && looks_like_registry(rest.substr(0, slash))) {
    reference.registry = rest.substr(0, slash);
    rest = rest.substr(slash + 1);
    if (!is_registry(reference.registry)) {
      return invalid(text);
    }
  }
  if (const size_t colon = rest.rfind(':'); colon != std::string_view::npos) {
    reference.tag = rest.substr(colon + 1);
    rest = rest.substr(0, colon);
    if (!is_tag(reference.tag)) {
      return invalid(text);
    }
  }
  if (!is_path(rest)) {
    return invalid(text);
  }
  reference.repository = rest;
  if (reference.registry.empty() || reference.registry == "index.docker.io") {
    reference.registry = "docker.io";
  }
  if (reference.registry == "docker.io" && !reference.repository.contains('/')) {
    reference.repository = cat("library/", reference.repository);
  }
  if (reference.tag.empty() && reference.digest.empty()) {
    reference.tag = "latest";
  }
  return reference;
}

bool is_local_image_name(std::string_view text) {
  if (text.empty() || text.size() > kLocalImageNameBytesMax) {
    return false;
  }
  std::string_view path = text;
  if (const size_t colon = text.find(':'); colon != std::string_view::npos) {
    path = text.substr(0, colon);
    if (!is_tag(text.substr(colon + 1))) {
      return false;
    }
  }
  const size_t slash = path.find('/');
  const bool hosted = slash != std::string_view::npos && looks_like_registry(path.substr(0, slash));
  return !hosted && is_path(path);
}

bool is_build_name(std::string_view text) {
  constexpr size_t kDigits = 64;
  if (!text.starts_with(kBuildNamePrefix)) {
    return false;
  }
  text.remove_prefix(kBuildNamePrefix.size());
  return text.size() == kDigits &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

bool is_local_image_path(std::string_view text) {
  return (text.starts_with("dir:/") || text.starts_with("tar:/")) && text.size() <= kPathBytesMax &&
         !text.contains('\0');
}

}  // namespace model
