#include "service/agent_call.h"

namespace service {
namespace {

using base::ErrorCode;
using base::Result;
using net::Task;

constexpr size_t kAnswerBytesMax = size_t{64} * 1024;

// What an error's body says, as far as it is one.
std::string message_in(const std::string& body) {
  const auto object = wire::json::parse_object(body);
  const auto* error = object ? object->if_contains("error") : nullptr;
  const auto* message =
      error != nullptr && error->is_object() ? error->get_object().if_contains("message") : nullptr;
  return message != nullptr && message->is_string() ? std::string(message->get_string()) : "";
}

Task<Result<std::string>> ask(engine::AgentConnection& agent, const AgentQuestion& question) {
  auto head = wire::http::HeadBuilder::request(question.method, question.target);
  head.add("host", "agent");
  if (question.method != "GET") {
    head.add_length(question.body.size());
  }
  CO_RETURN_IF_ERROR(
      co_await agent.stream.write_all(head.finish(), question.body, kAgentAnswerPatience));
  if (question.on_sent) {
    question.on_sent();
  }
  CO_ASSIGN_OR_RETURN(const auto response,
                      co_await agent.reader.read_response(question.method,
                                                          net::Deadline::after(question.patience)));
  CO_ASSIGN_OR_RETURN(std::string body,
                      co_await agent.reader.read_whole_body(kAnswerBytesMax, kAgentAnswerPatience));
  if (response.status != 200) {
    const std::string message = message_in(body);
    auto failed =
        base::fail(ErrorCode::agent_failed, message.empty() ? "it answered with status " : message,
                   message.empty() ? base::cat(response.status) : "");
    failed.error().details.emplace_back("status", base::cat(response.status));
    co_return failed;
  }
  co_return body;
}

}  // namespace

Task<Result<wire::json::Object>> ask_agent_json(Context& context, std::string address,
                                                AgentQuestion question) {
  CO_ASSIGN_OR_RETURN(auto agent, co_await context.engine.connect(address));
  auto body = co_await ask(*agent, question);
  if (!body) {
    const bool is_late = body.error().code == ErrorCode::deadline_exceeded;
    auto failed = base::fail(is_late ? ErrorCode::unavailable : ErrorCode::agent_failed,
                             "the sandbox's agent: ", body.error().message);
    failed.error().details = std::move(body.error().details);
    co_return failed;
  }
  auto object = wire::json::parse_object(*body);
  if (!object) {
    co_return base::fail(ErrorCode::agent_failed, "the sandbox's agent answered with broken JSON");
  }
  context.engine.give_back(std::move(address), std::move(agent));
  co_return std::move(*object);
}

}  // namespace service
