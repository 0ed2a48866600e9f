#include "service/v1_exec_request.h"

#include <algorithm>
#include <array>

namespace service {
namespace {

// The agent's names of the fields and this API's.
constexpr std::array<std::pair<std::string_view, std::string_view>, 2> kNames{
    {{"cwd", "workdir"}, {"timeout_sec", "timeout"}}};

base::Error in_words_of_v1(base::Error error) {
  for (auto& [key, value] : error.details) {
    const auto* name =
        std::ranges::find(kNames, std::string_view(value), &decltype(kNames)::value_type::first);
    if (key == "field" && name != kNames.end()) {
      const std::string ours = base::cat("'", name->first, "'");
      if (const size_t at = error.message.find(ours); at != std::string::npos) {
        error.message.replace(at, ours.size(), base::cat("'", name->second, "'"));
      }
      value = name->second;
    }
  }
  return error;
}

}  // namespace

base::Result<RunRequest> parse_v1_exec(std::string_view body) {
  ASSIGN_OR_RETURN(const auto object, wire::json::parse_object(body));
  wire::json::Reader reader(object);
  ASSIGN_OR_RETURN(const auto command, reader.required<std::string>("command"));
  ASSIGN_OR_RETURN(const auto workdir, reader.optional<std::string>("workdir"));
  ASSIGN_OR_RETURN(const auto timeout, reader.optional<double>("timeout"));
  RETURN_IF_ERROR(reader.finish());
  wire::json::Object agents{{"command", command}};
  if (workdir) {
    agents["cwd"] = *workdir;
  }
  if (timeout && *timeout != 0) {
    agents["timeout_sec"] = *timeout;
  }
  auto request = parse_run(wire::json::serialize(agents));
  if (!request) {
    return std::unexpected(in_words_of_v1(std::move(request).error()));
  }
  return request;
}

}  // namespace service
