// What the steps of one build may mount and nothing else ever sees: values and private keys by the
// ids that the Dockerfile has for them. They go from the request to the memory of the builder, and
// to no store, log, event or digest.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/secret.h"

namespace service {

struct BuildSecrets {
  static constexpr size_t kCountMax = 32;
  // With their ids and in base64 they fit a request's head, whose limit is 32 KiB.
  static constexpr size_t kBytesMax = size_t{16} * 1024;

  std::map<std::string, base::Secret> values;  // RUN --mount=type=secret,id=...
  std::map<std::string, base::Secret> keys;    // RUN --mount=type=ssh,id=...: one private key each

  [[nodiscard]] bool empty() const { return values.empty() && keys.empty(); }
};

// Of the two headers' values, "" where one is missing: each is {"id": "base64", ...}. invalid_field
// that names the header and, where it is one, the id; never what was given for it.
base::Result<BuildSecrets> parse_build_secrets(std::string_view values, std::string_view keys);
// What a builder reads of them: {"secrets": {id: base64}, "ssh": {id: base64}}.
base::Secret build_secrets_file(const BuildSecrets& secrets);

}  // namespace service
