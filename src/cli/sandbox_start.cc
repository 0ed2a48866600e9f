#include "cli/sandbox_start.h"

#include "cli/compose_files.h"
#include "cli/variables.h"

namespace cli {

using base::ErrorCode;
using base::fail;
using wire::json::Object;
using wire::json::Value;

namespace {

// The longest the gateway holds a waiting request.
constexpr int kWaitSecondsMax = 300;
// How often someone who watches gets news.
constexpr int kWatchedWaitSeconds = 1;

// What happened last, in a few words.
std::string latest_news(Context& context, const std::string& id) {
  const auto events = context.api.get_object(sandbox_target(id, "/events"));
  const Value* items = events ? events->if_contains("items") : nullptr;
  if (items == nullptr || !items->is_array() || items->get_array().empty() ||
      !items->get_array().back().is_object()) {
    return "";
  }
  const Object& last = items->get_array().back().get_object();
  const std::string message = field_text(last, "message");
  return base::cat(field_text(last, "type"), message.empty() ? "" : ": ", message);
}

}  // namespace

bool is_settled(std::string_view state) { return state != "queued" && state != "starting"; }

Object network_value(const std::string& mode, const std::vector<std::string>& allow) {
  Object network{{"mode", mode.empty() ? "allow" : mode}};
  if (!allow.empty() || mode == "allow") {
    wire::json::Array hosts;
    for (const std::string& host : allow) {
      hosts.emplace_back(host);
    }
    network["allow"] = std::move(hosts);
  }
  return network;
}

Result<Object> create_body(const CreateOptions& options) {
  Object body;
  const bool is_composed = !options.compose.empty();
  if (!is_composed) {
    body["image"] = options.image;
  }
  // Of a compose file the services' own limits may say it.
  if (options.cpus || !is_composed) {
    body["cpus"] = options.cpus.value_or(kDefaultCpus);
  }
  if (options.memory_mb || !is_composed) {
    body["memory_mb"] = options.memory_mb.value_or(kDefaultMemoryMb);
  }
  if (options.storage_mb) {
    body["storage_mb"] = *options.storage_mb;
  }
  if (!options.labels.empty()) {
    ASSIGN_OR_RETURN(body["labels"], parse_labels(options.labels));
  }
  // With compose files an env file holds what their `$` finds.
  const auto env_files = is_composed ? std::vector<std::string>{} : options.env_files;
  if (!options.env.empty() || !env_files.empty()) {
    ASSIGN_OR_RETURN(body["env"], read_variables(options.env, env_files));
  }
  const std::pair<std::string_view, const std::string&> texts[] = {{"user", options.user},
                                                                   {"workdir", options.workdir},
                                                                   {"pull", options.pull},
                                                                   {"team", options.team}};
  for (const auto& [name, value] : texts) {
    if (!value.empty()) {
      body[name] = value;
    }
  }
  if (!options.network.empty() || !options.allow.empty()) {
    body["network"] = network_value(options.network, options.allow);
  }
  if (options.lease_sec) {
    body["lease_sec"] = *options.lease_sec;
  }
  if (options.max_lifetime_sec) {
    body["max_lifetime_sec"] = *options.max_lifetime_sec;
  }
  return body;
}

Result<Object> start_sandbox(Context& context, const CreateOptions& options) {
  ASSIGN_OR_RETURN(auto body, create_body(options));
  if (!options.compose.empty()) {
    ASSIGN_OR_RETURN(body["compose"], compose_request(context, options));
  }
  // With the key a repetition after a lost answer finds the same sandbox.
  HttpRequest request{.method = "POST",
                      .target = "/sandboxes",
                      .headers = {{"Content-Type", "application/json"},
                                  {"Idempotency-Key", base::new_id(context.random, "cli")}},
                      .body = wire::json::serialize(body),
                      .ignore_signals = true};
  ASSIGN_OR_RETURN(auto answer, context.api.call_json(request, Repeat::yes));
  if (!answer.is_object() || field_text(answer.get_object(), "id").empty()) {
    return fail(ErrorCode::internal, "the gateway's answer to the creation has no id");
  }
  return std::move(answer.get_object());
}

Result<Object> wait_until_ready(Context& context, const std::string& id) {
  Progress progress(context.console, context.clock);
  const int wait = progress.visible() ? kWatchedWaitSeconds : kWaitSecondsMax;
  while (true) {
    const std::string target = sandbox_target(id, base::cat("?wait=", wait));
    ASSIGN_OR_RETURN(auto sandbox, context.api.get_object(target, wait));
    const std::string state = field_text(sandbox, "state");
    if (state == "ready") {
      return sandbox;
    }
    if (is_settled(state)) {
      const std::string reason = field_text(sandbox, "reason");
      const std::string message = field_text(sandbox, "message");
      return fail(ErrorCode::not_ready, "sandbox ", id, " is ", state, reason.empty() ? "" : ": ",
                  reason, message.empty() ? "" : ": ", message);
    }
    if (progress.visible()) {
      const std::string news = latest_news(context, id);
      progress.show(base::cat("sandbox ", id, " is ", state, ", ", progress.elapsed_seconds(), " s",
                              news.empty() ? "" : " - ", news));
    }
  }
}

}  // namespace cli
