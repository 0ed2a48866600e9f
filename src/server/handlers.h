// The handlers of the route table, by group. Each parses its request, calls one use case and
// answers.
#pragma once

#include "server/application.h"
#include "server/exchange.h"

namespace server {

// sandbox_handlers.cc
Task<Result<void>> create_sandbox(Application& application, Exchange& exchange);
Task<Result<void>> list_sandboxes(Application& application, Exchange& exchange);
Task<Result<void>> get_sandbox(Application& application, Exchange& exchange);
Task<Result<void>> patch_sandbox(Application& application, Exchange& exchange);
Task<Result<void>> delete_sandbox(Application& application, Exchange& exchange);
Task<Result<void>> sandbox_events(Application& application, Exchange& exchange);

// agent_handlers.cc
Task<Result<void>> sandbox_activity(Application& application, Exchange& exchange);
Task<Result<void>> run_command(Application& application, Exchange& exchange);
Task<Result<void>> get_file(Application& application, Exchange& exchange);
Task<Result<void>> put_file(Application& application, Exchange& exchange);

// image_handlers.cc
Task<Result<void>> list_images(Application& application, Exchange& exchange);
Task<Result<void>> post_image(Application& application, Exchange& exchange);
Task<Result<void>> get_image(Application& application, Exchange& exchange);
Task<Result<void>> delete_image(Application& application, Exchange& exchange);
Task<Result<void>> collect_images(Application& application, Exchange& exchange);
Task<Result<void>> get_pull(Application& application, Exchange& exchange);
Task<Result<void>> list_registries(Application& application, Exchange& exchange);
Task<Result<void>> get_registry(Application& application, Exchange& exchange);
Task<Result<void>> put_registry(Application& application, Exchange& exchange);
Task<Result<void>> delete_registry(Application& application, Exchange& exchange);

// service_handlers.cc
Task<Result<void>> healthz(Application& application, Exchange& exchange);
Task<Result<void>> readyz(Application& application, Exchange& exchange);
Task<Result<void>> metrics(Application& application, Exchange& exchange);
Task<Result<void>> openapi(Application& application, Exchange& exchange);
Task<Result<void>> me(Application& application, Exchange& exchange);
Task<Result<void>> not_built(Application& application, Exchange& exchange);

}  // namespace server
