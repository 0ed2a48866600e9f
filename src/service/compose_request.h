// `compose` of a create's body, {"files","env","env_files","builds","main"}: what it becomes. Pure;
// every refusal names its key.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compose/plan.h"
#include "service/create_request.h"

namespace service {

// The build ids that it names, by service; none without `compose`.
base::Result<std::map<std::string, std::string>> compose_builds(const wire::json::Object& body);

// The containers, main first; nullopt without `compose`. Each image is checked as `image` is.
base::Result<std::optional<std::vector<model::ContainerSpec>>> read_compose(
    wire::json::Reader& reader, const CreateLimits& limits);

// Of the containers' own limits; 0 where one of them has none.
model::Resources sum_of(const std::vector<model::ContainerSpec>& containers);

// `env`, `user` and `workdir` beside `compose` are main's. Fields that say what the file says are
// refused.
base::Result<void> put_over_main(model::ContainerSpec& main, model::ContainerSpec over,
                                 wire::json::Reader& reader);

// The body of POST /compose/check, {"files","env","main"}, and what has to be given with a create.
base::Result<wire::json::Object> check_compose(std::string_view body);

}  // namespace service
