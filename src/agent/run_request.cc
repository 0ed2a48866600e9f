#include "agent/run_request.h"

#include "wire/json.h"

namespace agent {

using base::fail_field;

Result<OutputEncoding> parse_encoding(std::string_view name,
                                      const std::optional<std::string>& text) {
  if (!text || *text == "utf8") {
    return OutputEncoding::utf8;
  }
  if (*text == "base64") {
    return OutputEncoding::base64;
  }
  return fail_field(name, "'", name, "' must be \"utf8\" or \"base64\"");
}

Result<RunRequest> parse_run_request(std::string_view body) {
  ASSIGN_OR_RETURN(const auto object, wire::json::parse_object(body));
  wire::json::Reader reader(object);
  RunRequest request;
  ASSIGN_OR_RETURN(auto input, reader.optional<std::string>("stdin"));
  ASSIGN_OR_RETURN(const auto input_encoding, reader.optional<std::string>("stdin_encoding"));
  ASSIGN_OR_RETURN(const auto encoding, reader.optional<std::string>("encoding"));
  ASSIGN_OR_RETURN(static_cast<CommandRequest&>(request), read_command_request(reader));
  RETURN_IF_ERROR(reader.finish());
  request.input = std::move(input).value_or("");
  ASSIGN_OR_RETURN(request.encoding, parse_encoding("encoding", encoding));
  ASSIGN_OR_RETURN(const auto decode, parse_encoding("stdin_encoding", input_encoding));
  if (decode == OutputEncoding::base64) {
    auto bytes = base::decode_base64(request.input);
    if (!bytes) {
      return fail_field("stdin", "'stdin' is not valid base64");
    }
    request.input = std::move(*bytes);
  }
  return request;
}

Result<CommandRequest> parse_exec_request(std::string_view line) {
  ASSIGN_OR_RETURN(const auto object, wire::json::parse_object(line));
  wire::json::Reader reader(object);
  ASSIGN_OR_RETURN(CommandRequest request, read_command_request(reader));
  RETURN_IF_ERROR(reader.finish());
  return request;
}

}  // namespace agent
