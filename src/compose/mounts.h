// What a service mounts: named volumes, volumes of its own, tmpfs. A folder of the client's machine
// is refused: the sandbox does not run there. Pure.
#pragma once

#include <string>
#include <vector>

#include "compose/project.h"
#include "model/service.h"

namespace compose {

base::Result<std::vector<model::Mount>> read_mounts(const Project& project,
                                                    const std::string& service,
                                                    const wire::json::Value* volumes,
                                                    const wire::json::Value* tmpfs);
// Of the project: what a volume asks for that there is not.
base::Result<void> check_volumes(const Project& project);

}  // namespace compose
