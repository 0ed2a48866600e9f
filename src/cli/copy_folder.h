// `cp -r`: whole folders as tar streams, either way.
#pragma once

#include "cli/context.h"
#include "cli/copy_plan.h"

namespace cli {

Result<int> upload_folder(Context& context, const CopyPlan& plan, const CopyOptions& options);
// not_a_directory when the source there is a file.
Result<int> download_folder(Context& context, const CopyPlan& plan, const CopyOptions& options);
// "/sandboxes/ID/files?path=…" of the side that is in a sandbox.
std::string copy_target(const CopyPlan& plan, const CopyOptions& options);

}  // namespace cli
