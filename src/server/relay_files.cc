#include "server/relay_files.h"

#include "server/agent_answer.h"

namespace server {
namespace {

// Removing a tree of a million files takes its time.
constexpr base::Milliseconds kChangePatience{600'000};
constexpr std::string_view kTarType = "application/x-tar";

Task<Result<void>> relay_file(Exchange& exchange, AgentChannel& channel, const service::Live& live,
                              const wire::http::Response& response) {
  if (response.status >= kFirstErrorStatus) {
    return relay_any_json(exchange, channel, live, response);
  }
  exchange.note("bytes", response.content_length);
  auto head = exchange.start_head(response.status);
  const std::string* type = response.find("content-type");
  const bool is_tar = type != nullptr && *type == kTarType;
  const Coding coding =
      is_tar ? choose_coding(exchange.request().find("accept-encoding")) : Coding::identity;
  head.add("content-type", is_tar ? kTarType : "application/octet-stream")
      .add("content-disposition", "attachment");
  for (const std::string_view name :
       {"etag", "last-modified", "accept-ranges", "content-range", "x-file-mode", "x-file-owner"}) {
    if (const std::string* value = response.find(name)) {
      head.add(name, *value);
    }
  }
  if (coding != Coding::identity && exchange.request().method != "HEAD") {
    return relay_coded(exchange, channel, response, std::move(head), coding);
  }
  return relay_bytes(exchange, channel, response, std::move(head));
}

Task<Result<void>> relay_events(Exchange& exchange, AgentChannel& channel,
                                const service::Live& live, const wire::http::Response& response) {
  if (response.status >= kFirstErrorStatus) {
    return relay_any_json(exchange, channel, live, response);
  }
  auto head = exchange.start_head(response.status);
  head.add("content-type", "text/event-stream").add("cache-control", "no-store");
  return relay_bytes(exchange, channel, response, std::move(head));
}

}  // namespace

Task<Result<void>> relay_file_watch(Application& application, Exchange& exchange, LivePtr live,
                                    const std::string& target) {
  auto head = agent_head(exchange, "GET", target);
  return ask_agent(
      application, exchange, std::move(live),
      {.method = "GET", .head = head.finish(), .patience = kAgentPatience, .client_cancels = true},
      relay_events);
}

Task<Result<void>> relay_file_read(Application& application, Exchange& exchange, LivePtr live,
                                   const std::string& target, FileAnswer answer) {
  const std::string& method = exchange.request().method;
  auto head = agent_head(exchange, method, target);
  for (const std::string_view name : {"range", "if-range", "if-none-match", "if-modified-since"}) {
    if (const std::string* value = exchange.request().find(name)) {
      head.add(name, *value);
    }
  }
  return ask_agent(application, exchange, std::move(live),
                   {.method = method, .head = head.finish(), .patience = kAgentPatience},
                   answer == FileAnswer::json ? relay_any_json : relay_file);
}

Task<Result<void>> relay_file_write(Application& application, Exchange& exchange, LivePtr live,
                                    const std::string& target) {
  CO_ASSIGN_OR_RETURN(BodySource body, BodySource::open(exchange));
  co_return co_await upload_to_agent(application, exchange, std::move(live), body,
                                     {.method = "PUT",
                                      .head = agent_head(exchange, "PUT", target),
                                      .body_patience = kBodyPatience,
                                      .patience = kAgentPatience},
                                     relay_any_json);
}

Task<Result<void>> relay_file_change(Application& application, Exchange& exchange, LivePtr live,
                                     const std::string& target) {
  const std::string& method = exchange.request().method;
  auto head = agent_head(exchange, method, target);
  return ask_agent(application, exchange, std::move(live),
                   {.method = method, .head = head.finish(), .patience = kChangePatience},
                   relay_any_json);
}

}  // namespace server
