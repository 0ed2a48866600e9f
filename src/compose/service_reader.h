// One service of a merged project as a container. Pure; every key is either taken, known to make no
// difference here, or refused by its name.
#pragma once

#include <string>
#include <vector>

#include "compose/project.h"

namespace compose {

struct ReadService {
  model::ContainerSpec container;
  std::vector<std::string> names;  // what the others may call it, its own name first
  std::vector<std::string> networks;
  std::vector<std::string> ports;  // "80/tcp": what it says it listens on
  std::optional<BuildNeed> build;
  std::vector<EnvFileNeed> env_files;
  bool own_network = true;  // false: `network_mode: service:...`
};

// `complete`: env files and images have to be there.
base::Result<ReadService> read_service(const Project& project, const Input& input, size_t number,
                                       bool complete);

}  // namespace compose
