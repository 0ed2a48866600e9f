#include "service/containers.h"

#include "service/agent_call.h"

namespace service {
namespace {

using base::Result;

constexpr size_t kWordBytesMax = 32;
constexpr size_t kOutputBytesMax = 2048;
// Of the agents of one sandbox, asked one after the other.
constexpr base::Milliseconds kPatience{1'000};

// What an agent says is cut: it is hostile.
Result<std::string> read_text(wire::json::Reader& reader, std::string_view name, size_t most) {
  ASSIGN_OR_RETURN(auto text, reader.optional<std::string>(name));
  if (!text) {
    return std::string();
  }
  while (text->size() > most || !base::is_utf8(*text)) {
    text->pop_back();
  }
  return std::move(*text);
}

}  // namespace

Result<size_t> container_number(const SandboxRow& row, std::string_view name) {
  if (name.empty() || (name == "main" && row.containers.empty())) {
    return size_t{0};
  }
  for (size_t i = 0; i < row.containers.size(); ++i) {
    if (row.containers[i].name == name) {
      return i;
    }
  }
  if (name == "main") {
    return size_t{0};
  }
  return base::fail_field("container", "there is no container '", name, "'");
}

size_t container_of_session(const SandboxRow& row, std::string_view session) {
  const size_t dash = session.find('-');
  if (!session.starts_with('s') || dash == std::string_view::npos) {
    return 0;
  }
  const auto number = base::parse_number<size_t>(session.substr(1, dash - 1));
  return number && *number < row.containers.size() ? *number : 0;
}

Result<ServiceStatus> parse_service_status(const wire::json::Object& object) {
  wire::json::Reader reader(object);
  ServiceStatus status;
  ASSIGN_OR_RETURN(status.state, read_text(reader, "state", kWordBytesMax));
  ASSIGN_OR_RETURN(status.health, read_text(reader, "health", kWordBytesMax));
  ASSIGN_OR_RETURN(status.exit_code, reader.optional<int64_t>("exit_code"));
  ASSIGN_OR_RETURN(const auto restarts, reader.optional<int64_t>("restarts"));
  ASSIGN_OR_RETURN(const auto version, reader.optional<int64_t>("version"));
  status.restarts = restarts.value_or(0);
  status.version = version.value_or(0);
  ASSIGN_OR_RETURN(status.output, read_text(reader, "output", kOutputBytesMax));
  ASSIGN_OR_RETURN(status.check_output, read_text(reader, "check_output", kOutputBytesMax));
  return status;
}

net::Task<std::vector<std::optional<ServiceStatus>>> container_states(Context& context,
                                                                      SandboxRow row) {
  std::vector<std::optional<ServiceStatus>> states(row.containers.size());
  for (size_t i = 0; i < states.size(); ++i) {
    const auto answer = co_await ask_agent_json(context, engine::agent_address(row.id, i),
                                                {.target = "/service", .patience = kPatience});
    if (!answer) {
      break;  // where one does not answer, the others are not waited for as well
    }
    if (auto status = parse_service_status(*answer)) {
      states[i] = std::move(*status);
    }
  }
  co_return states;
}

}  // namespace service
