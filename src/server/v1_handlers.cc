// /api/v1: sandboxes. Every success is 200; its clients take any other status for a failure.
#include "model/image_reference.h"
#include "server/handlers.h"
#include "server/v1_json.h"

namespace server {
namespace {

using model::SandboxState;

// Of a list, which has no pages there: the newest ones.
constexpr size_t kV1ListMax = 10'000;
// A deletion takes milliseconds; one that hangs goes on without the caller.
constexpr base::Milliseconds kV1DeletePatience{30'000};
constexpr int64_t kMillisPerUnit = 1000;

// An import's name that is not there would be taken for one of a public registry.
Task<Result<void>> check_default_image(Application& application) {
  const std::string& image = application.default_sandbox.image;
  if (!model::is_local_image_name(image)) {
    co_return Result<void>{};
  }
  const auto found = co_await application.images.get(image);
  if (!found && found.error().code == ErrorCode::not_found) {
    co_return base::fail(ErrorCode::unavailable, "the default image '", image,
                         "' is not here: an operator makes it with 'sandbox image build-default' "
                         "or names another one with --default-image");
  }
  CO_RETURN_IF_ERROR(found);
  co_return Result<void>{};
}

std::string create_body(const service::DefaultSandbox& sandbox) {
  return wire::json::serialize(wire::json::Object{
      {"image", sandbox.image},
      {"cpus", static_cast<double>(sandbox.millicpus) / static_cast<double>(kMillisPerUnit)},
      {"memory_mb", sandbox.memory_mb}});
}

// The caller gets no id of a sandbox that did not start, so nobody else would remove it.
Task<Result<void>> give_up(Application& application, const service::Caller& caller,
                           const service::SandboxRow& row) {
  const bool failed = row.state == SandboxState::failed;
  auto error = base::fail(
      ErrorCode::unavailable, "the sandbox did not start",
      failed ? base::cat(": ", row.message.empty() ? row.reason : row.message) : " in time");
  if (failed) {
    error.error().details.emplace_back("reason", row.reason);
  }
  CO_RETURN_IF_ERROR(co_await application.sandboxes.remove(caller, row.id));
  co_return error;
}

}  // namespace

Task<Result<void>> v1_create_sandbox(Application& application, Exchange& exchange) {
  CO_RETURN_IF_ERROR(exchange.check_parameters({}));
  CO_ASSIGN_OR_RETURN(const std::string body, co_await exchange.read_body(kSmallBodyBytesMax));
  if (!body.empty() && body != "{}") {
    co_return base::fail(ErrorCode::invalid_field,
                         "this create takes no body: image and size are the operator's");
  }
  CO_RETURN_IF_ERROR(co_await check_default_image(application));
  CO_ASSIGN_OR_RETURN(
      const auto created,
      co_await application.sandboxes.create(
          exchange.caller(), create_body(application.default_sandbox), std::nullopt));
  exchange.audit().event = {};  // written with the sandbox itself
  const auto deadline = net::Deadline::after(std::chrono::seconds(kWaitSecondsMax));
  CO_ASSIGN_OR_RETURN(const auto row, co_await application.sandboxes.wait_settled(
                                          exchange.caller(), created.row.id, true, deadline));
  if (row.state != SandboxState::ready) {
    co_return co_await give_up(application, exchange.caller(), row);
  }
  co_return co_await exchange.answer_json(
      200, wire::json::serialize(wire::json::Object{{"sandbox", v1_sandbox_json(row)}}));
}

Task<Result<void>> v1_list_sandboxes(Application& application, Exchange& exchange) {
  CO_RETURN_IF_ERROR(exchange.check_parameters({"all"}));
  service::SandboxFilter filter{.limit = kListMax};
  CO_ASSIGN_OR_RETURN(filter.archived, exchange.flag_parameter("all"));
  wire::json::Array items;
  do {
    CO_ASSIGN_OR_RETURN(auto page,
                        co_await application.sandboxes.list(exchange.caller(), {}, filter));
    for (const service::SandboxRow& row : page.items) {
      if (filter.archived || row.state != SandboxState::deleting) {
        items.push_back(v1_sandbox_json(row));
      }
    }
    filter.cursor = std::move(page.next_cursor);
  } while (!filter.cursor.empty() && items.size() < kV1ListMax);
  co_return co_await exchange.answer_json(
      200, wire::json::serialize(wire::json::Object{{"sandboxes", std::move(items)}}));
}

Task<Result<void>> v1_get_sandbox(Application& application, Exchange& exchange) {
  CO_RETURN_IF_ERROR(exchange.check_parameters({}));
  CO_ASSIGN_OR_RETURN(const auto row, co_await application.sandboxes.get(
                                          exchange.caller(), exchange.segment(0), true));
  co_return co_await exchange.answer_json(200, wire::json::serialize(v1_sandbox_json(row)));
}

Task<Result<void>> v1_delete_sandbox(Application& application, Exchange& exchange) {
  CO_RETURN_IF_ERROR(exchange.check_parameters({}));
  const service::LivePtr live =
      application.sandboxes.find_live(exchange.caller(), exchange.segment(0));
  CO_RETURN_IF_ERROR(co_await application.sandboxes.remove(exchange.caller(), exchange.segment(0)));
  co_await application.sandboxes.wait_gone(live, net::Deadline::after(kV1DeletePatience));
  co_return co_await exchange.answer_json(200, "{}");
}

}  // namespace server
