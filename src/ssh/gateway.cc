#include "ssh/gateway.h"

#include "base/sys.h"
#include "net/http.h"
#include "wire/json.h"

namespace ssh {
namespace {

constexpr base::Milliseconds kPatience{90'000};  // longer than the gateway's own with an agent
constexpr size_t kErrorBytesMax = size_t{64} * 1024;
constexpr int kSwitchingProtocols = 101;

std::unexpected<base::Error> not_there() {
  return base::fail(ErrorCode::unavailable, "the gateway does not answer");
}

// The error that an answer's body tells.
base::Error error_of(std::string_view body) {
  base::Error error{.code = ErrorCode::unavailable, .message = "the gateway refused"};
  const auto object = wire::json::parse_object(body);
  if (!object) {
    return error;
  }
  wire::json::Reader reader(*object);
  const auto told = reader.required<wire::json::Object>("error");
  if (!told) {
    return error;
  }
  wire::json::Reader fields(*told);
  const auto code = fields.required<std::string>("code");
  auto message = fields.required<std::string>("message");
  if (code && message) {
    base::parse_error_code(*code, error.code);
    error.message = std::move(*message);
  }
  return error;
}

}  // namespace

Task<Result<GatewayStream>> Gateway::ask(GatewayRequest request) {
  auto socket = base::sys::connect_unix(socket_, true);
  if (!socket) {
    co_return not_there();
  }
  GatewayStream out{.stream = std::make_unique<net::Stream>(loop_, std::move(*socket))};
  auto head = wire::http::HeadBuilder::request(request.method, request.target);
  head.add("host", "gateway").add("connection", "Upgrade").add("upgrade", "sandbox-stream");
  if (!request.bearer.empty()) {
    head.add("authorization", base::cat("Bearer ", request.bearer));
  }
  if (!request.address.empty()) {
    head.add("x-client-address", request.address);
  }
  if (!request.body.empty()) {
    head.add("content-type", "application/json").add_length(request.body.size());
  }
  const auto sent = co_await out.stream->write_all(head.finish(), request.body, kPatience);
  if (!sent) {
    co_return not_there();
  }
  net::HttpReader reader(*out.stream);
  const auto response =
      co_await reader.read_response(request.method, net::Deadline::after(kPatience));
  if (!response) {
    co_return not_there();
  }
  if (response->status != kSwitchingProtocols) {
    const auto body = co_await reader.read_whole_body(kErrorBytesMax, kPatience);
    co_return std::unexpected(error_of(body ? *body : std::string()));
  }
  if (const std::string* secret = response->find("x-connection")) {
    out.connection = *secret;
  }
  out.early = reader.take_buffered();
  co_return out;
}

}  // namespace ssh
