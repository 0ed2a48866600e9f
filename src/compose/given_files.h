// `configs` and `secrets`: texts that services find as files in their containers. Pure; refusals
// name their key.
#pragma once

#include <string>
#include <vector>

#include "compose/project.h"
#include "model/service.h"

namespace compose {

enum class FileKind { config, secret };

// What a service's `configs` or `secrets` name. Texts that lie in files have to be among
// Input::env_files where `complete`; else their paths go to `needed`.
base::Result<std::vector<model::ServiceFile>> read_given_files(
    const Project& project, const Input& input, FileKind kind, const wire::json::Value& value,
    const std::string& field, bool complete, std::vector<std::string>& needed);

// Where a build finds a secret of the project: a file, or a variable.
base::Result<BuildSecretNeed> read_build_secret(const Project& project,
                                                const wire::json::Value& value,
                                                const std::string& field);

}  // namespace compose
