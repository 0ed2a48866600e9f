// A compose file as a sandbox: files, variables and what they name in, containers out. Pure.
// Bounds: kFilesMax files of kFileBytesMax, kServicesMax services, kMountsMax mounts each. Every
// refusal is compose_invalid with the key as details.field. docs/compose.md says what is supported.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "model/sandbox.h"

namespace compose {

inline constexpr size_t kFilesMax = 8;
inline constexpr size_t kFileBytesMax = size_t{256} * 1024;
// Each is a container with an agent of its own.
inline constexpr size_t kServicesMax = 16;
inline constexpr size_t kMountsMax = 16;

struct Input {
  std::vector<std::string> files;   // YAML; later ones over earlier ones
  model::EnvironmentMap variables;  // what `$` finds
  // The texts of files that the files name (env files, configs, secrets, what is extended), by the
  // path that they have there.
  std::map<std::string, std::string> env_files;
  // The images that services with a `build` were built to.
  std::map<std::string, std::string> images;
  std::string main;  // where commands go; empty: "main", else the first
};

// `main` is the first container.
base::Result<std::vector<model::ContainerSpec>> compile(const Input& input);

// What has to be given beside the files before they can be compiled.
struct BuildSecretNeed {
  std::string id;
  std::string file, variable;  // one of them
};
struct BuildNeed {
  std::string service;
  std::string context;
  std::string dockerfile;         // within the context; empty: the usual one
  std::string dockerfile_inline;  // its text; empty: a file
  std::string target;
  model::EnvironmentMap arguments;
  std::vector<BuildSecretNeed> secrets;
};
struct EnvFileNeed {
  std::string path;
  bool required = true;
};
struct Needs {
  std::vector<std::string> services;  // main first
  std::vector<BuildNeed> builds;
  std::vector<EnvFileNeed> env_files;
};
base::Result<Needs> needs_of(const Input& input);

}  // namespace compose
