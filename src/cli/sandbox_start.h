// Creating a sandbox and waiting for it: what create and run share.
#pragma once

#include "cli/context.h"

namespace cli {

// The created sandbox. A signal does not end this call, so that whoever has to delete the sandbox
// knows its id; the gateway answers at once.
Result<wire::json::Object> start_sandbox(Context& context, const CreateOptions& options);
// Waits until it is ready and shows what is going on meanwhile; an error when it failed.
Result<wire::json::Object> wait_until_ready(Context& context, const std::string& id);
// The body of POST /sandboxes.
Result<wire::json::Object> create_body(const CreateOptions& options);
// The API's `network`; without a mode, hosts mean `allow`.
wire::json::Object network_value(const std::string& mode, const std::vector<std::string>& allow);
// Whether the state is one that waiting can end.
bool is_settled(std::string_view state);

}  // namespace cli
