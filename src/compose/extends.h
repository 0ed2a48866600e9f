// `extends`: a service that begins with what another one says, of the same file or of one that
// stands by its path in Input::env_files. Pure.
#pragma once

#include <string>
#include <vector>

#include "compose/plan.h"
#include "wire/json.h"

namespace compose {

// A file's text read as the project's own files are; `field` names it in refusals.
using FileReader = base::Result<wire::json::Object> (*)(const Input& input, const std::string& text,
                                                        const std::string& field);

// Carried out for all services of `file`; `before`: services of earlier files. Paths of files whose
// texts are not there go to `missing`, and their services are left as they are.
base::Result<void> take_extends(wire::json::Object& file, const wire::json::Object& before,
                                const Input& input, FileReader read,
                                std::vector<std::string>& missing);

}  // namespace compose
