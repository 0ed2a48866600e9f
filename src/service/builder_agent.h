// What the gateway itself asks of the agents of builders and of the sandboxes that base images are
// read from: small questions, and files to and from a descriptor of its own. An agent is hostile:
// its answers are bounded and each step has an end. Loop thread only; file calls go to the pool.
#pragma once

#include <string>

#include "service/context.h"
#include "wire/json.h"

namespace service {

class BuilderAgent {
 public:
  BuilderAgent(Context& context, std::string id) : context_(context), id_(std::move(id)) {}

  struct Answer {
    int status = 0;
    std::string body;  // at most kAnswerBytesMax
  };
  static constexpr size_t kAnswerBytesMax = size_t{2} << 20;

  // Whatever status it answers with. agent_failed: it is no HTTP; unavailable: no answer in time.
  net::Task<base::Result<Answer>> ask(std::string method, std::string target, std::string body,
                                      base::Milliseconds patience);
  // The same where 2xx alone will do: an error carries the agent's sentence.
  net::Task<base::Result<wire::json::Object>> ask_json(std::string method, std::string target,
                                                       std::string body,
                                                       base::Milliseconds patience);
  // The first bytes of what a GET answers with, about `bytes_max` of them; "" for any status but
  // 200. The connection goes with the rest.
  net::Task<base::Result<std::string>> read_some(std::string target, size_t bytes_max);
  // The whole file as the body of a PUT.
  net::Task<base::Result<void>> put(std::string target, const base::Fd& file);
  // The body of a GET, written to the file; more than bytes_max is body_too_large.
  net::Task<base::Result<void>> get(std::string target, const base::Fd& file, uint64_t bytes_max);
  // The body of a GET of another agent as the body of a PUT to this one.
  net::Task<base::Result<void>> put_from(std::string target, BuilderAgent& source,
                                         std::string source_target);

 private:
  using Channel = std::unique_ptr<engine::AgentConnection>;
  net::Task<base::Result<Channel>> send_head(wire::http::HeadBuilder head);
  // What a GET answers with, its body still to be read; any status but 2xx is an error.
  net::Task<base::Result<Channel>> open_get(std::string target);
  net::Task<base::Result<Answer>> read_answer(engine::AgentConnection& agent, std::string method,
                                              base::Milliseconds patience);

  Context& context_;
  std::string id_;
};

// "/files?path=..." with the path encoded.
std::string file_target(std::string_view path);

}  // namespace service
