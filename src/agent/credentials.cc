#include "agent/credentials.h"

#include "agent/answers.h"
#include "agent/upload.h"
#include "base/log.h"
#include "wire/json.h"

namespace agent {
namespace {

// What the gateway's templates can come to, in JSON.
constexpr size_t kBodyBytesMax = 1024UL * 1024;
constexpr mode_t kMode = 0600;

std::string below_home(const std::string& text, const Identity& user) {
  return text.starts_with("~/") ? base::cat(user.home, "/", text.substr(2)) : text;
}

Result<void> write_one(const std::string& path, const std::string& content, const Identity& user) {
  const FileRequest request{.path = below_home(path, user), .acting = user, .mode = kMode};
  ASSIGN_OR_RETURN(Upload upload, Upload::begin(request, content.size()));
  RETURN_IF_ERROR(upload.write(content));
  return upload.commit();
}

}  // namespace

net::Task<Result<void>> put_credentials(Agent& agent, net::Stream& stream, net::HttpReader& reader,
                                        const wire::http::Request& request) {
  CO_ASSIGN_OR_RETURN(const std::string body,
                      co_await read_body(stream, reader, request, kBodyBytesMax));
  CO_ASSIGN_OR_RETURN(const auto object, wire::json::parse_object(body));
  wire::json::Reader fields(object);
  CO_ASSIGN_OR_RETURN(const auto files, fields.required<Environment>("files"));
  CO_ASSIGN_OR_RETURN(auto variables, fields.required<Environment>("variables"));
  CO_ASSIGN_OR_RETURN(const Identity user, agent.accounts.find(agent.config.user));
  std::string answer = R"({"failed":[)";
  for (const auto& [path, content] : files) {
    if (const auto written = write_one(path, content, user); !written) {
      answer += answer.ends_with('[') ? "" : ",";
      base::append_json_string(answer, base::cat(path, ": ", written.error().message));
    }
  }
  for (auto& [name, value] : variables) {
    value = below_home(value, user);
  }
  agent.variables = std::move(variables);
  co_return co_await write_json(stream, 200, answer + "]}");
}

}  // namespace agent
