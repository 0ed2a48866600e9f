#include "service/agent_call.h"

namespace service {
namespace {

using base::ErrorCode;
using base::Result;
using net::Task;

// An agent answers in a millisecond; one with a hundredth of a cpu needs its time.
constexpr base::Milliseconds kPatience{5'000};
constexpr size_t kAnswerBytesMax = 64 * 1024;

Task<Result<std::string>> ask(engine::AgentConnection& agent, std::string target) {
  auto head = wire::http::HeadBuilder::request("GET", target);
  CO_RETURN_IF_ERROR(
      co_await agent.stream.write_all(head.add("host", "agent").finish(), kPatience));
  CO_ASSIGN_OR_RETURN(const auto response,
                      co_await agent.reader.read_response("GET", net::Deadline::after(kPatience)));
  if (response.status != 200) {
    co_return base::fail(ErrorCode::agent_failed, "it answered with status ", response.status);
  }
  co_return co_await agent.reader.read_whole_body(kAnswerBytesMax, kPatience);
}

}  // namespace

Task<Result<wire::json::Object>> ask_agent_json(Context& context, std::string id,
                                                std::string target) {
  CO_ASSIGN_OR_RETURN(auto agent, co_await context.engine.connect(id));
  auto body = co_await ask(*agent, std::move(target));
  if (!body) {
    const bool is_late = body.error().code == ErrorCode::deadline_exceeded;
    co_return base::fail(is_late ? ErrorCode::unavailable : ErrorCode::agent_failed,
                         "the sandbox's agent: ", body.error().message);
  }
  auto object = wire::json::parse_object(*body);
  if (!object) {
    co_return base::fail(ErrorCode::agent_failed, "the sandbox's agent answered with broken JSON");
  }
  context.engine.give_back(std::move(id), std::move(agent));
  co_return std::move(*object);
}

}  // namespace service
