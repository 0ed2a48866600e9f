#include "service/device_sign_in.h"

namespace service {
namespace {

using base::ErrorCode;
using base::Result;
using net::Task;

constexpr std::string_view kAttemptPurpose = "sign-in.device";

}  // namespace

Task<Result<DeviceSignIn::Begun>> DeviceSignIn::begin() {
  if (sign_in_.settings().client_id.empty()) {
    co_return base::fail(ErrorCode::not_found, "sign-in of devices is not configured");
  }
  CO_ASSIGN_OR_RETURN(auto device, co_await sign_in_.issuer().begin_device(sign_in_.scopes()));
  std::string attempt =
      sign_in_.seal({{"device", device.code}}, device.lifetime_sec, kAttemptPurpose);
  co_return Begun{.attempt = std::move(attempt), .device = std::move(device)};
}

Task<Result<std::optional<DeviceSignIn::Ended>>> DeviceSignIn::finish(std::string attempt,
                                                                      std::string remote) {
  CO_ASSIGN_OR_RETURN(const auto begun, sign_in_.unseal(attempt, kAttemptPurpose));
  CO_ASSIGN_OR_RETURN(auto granted,
                      co_await sign_in_.issuer().finish_device(oidc::text_claim(begun, "device")));
  if (!granted) {
    co_return std::nullopt;
  }
  CO_ASSIGN_OR_RETURN(Identity identity,
                      co_await sign_in_.identity_of_granted(std::move(*granted), ""));
  auto session = sign_in_.make_session(std::move(identity), SignIn::SessionKind::program);
  CO_ASSIGN_OR_RETURN(Caller caller, sign_in_.caller_of(session.identity));
  CO_RETURN_IF_ERROR(co_await sign_in_.keep_session(session, std::move(remote)));
  co_return Ended{.token = std::move(session.text), .caller = std::move(caller)};
}

}  // namespace service
