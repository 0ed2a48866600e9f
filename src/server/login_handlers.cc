// Sign-in by browser (service/browser_sign_in.h): three routes that a person's browser walks. The
// audit log has what succeeded, under the person's name, and refusals as it has all of them.
#include "server/answers_json.h"
#include "server/handlers.h"
#include "server/session_cookie.h"
#include "service/browser_sign_in.h"
#include "service/device_sign_in.h"

namespace server {
namespace {

constexpr int kSeeOther = 303;

// The row is somebody's who has signed in; of nobody there is none, but for what is refused.
void note_person(Exchange& exchange, service::Caller caller, std::string_view event) {
  caller.remote = exchange.remote();
  exchange.set_caller(std::move(caller));
  exchange.audit().event = event;
}

Result<service::BrowserSignIn*> browsers_of(Application& application) {
  if (application.browsers == nullptr) {
    return base::fail(ErrorCode::not_found, "sign-in by browser is not configured");
  }
  RETURN_IF_ERROR(application.browsers->check_configured());
  return application.browsers;
}

// Neither the place nor a cookie is anybody else's.
Headers leading_to(std::string location) {
  return {{"location", std::move(location)},
          {"cache-control", "no-store"},
          {"referrer-policy", "no-referrer"}};
}

Result<std::string> text_parameter(const Exchange& exchange, std::string_view name) {
  ASSIGN_OR_RETURN(const auto value, exchange.request().parameter(name));
  return value.value_or("");
}

Result<service::DeviceSignIn*> devices_of(Application& application) {
  if (application.devices == nullptr) {
    return base::fail(ErrorCode::not_found, "sign-in is not configured");
  }
  return application.devices;
}

wire::json::Value text_or_null(const std::string& text) {
  return text.empty() ? wire::json::Value(nullptr) : wire::json::Value(text);
}

}  // namespace

Task<Result<void>> login(Application& application, Exchange& exchange) {
  CO_RETURN_IF_ERROR(exchange.check_parameters({"return_to"}));
  CO_ASSIGN_OR_RETURN(service::BrowserSignIn * browsers, browsers_of(application));
  CO_ASSIGN_OR_RETURN(const auto return_to, exchange.request().parameter("return_to"));
  CO_ASSIGN_OR_RETURN(auto begun, browsers->begin(return_to.value_or("/")));
  Headers headers = leading_to(std::move(begun.location));
  headers.emplace_back(
      "set-cookie", set_cookie(Cookie::attempt, begun.attempt, service::BrowserSignIn::kAttemptSec,
                               browsers->is_secure()));
  co_return co_await exchange.answer_empty(kSeeOther, std::move(headers));
}

Task<Result<void>> login_callback(Application& application, Exchange& exchange) {
  exchange.audit().event = {};
  CO_ASSIGN_OR_RETURN(service::BrowserSignIn * browsers, browsers_of(application));
  const bool is_secure = browsers->is_secure();
  CO_ASSIGN_OR_RETURN(const auto attempt,
                      find_cookie(exchange.request(), Cookie::attempt, is_secure));
  if (!attempt) {
    co_return base::fail(ErrorCode::unauthenticated,
                         "this browser began no sign-in, or too long ago: begin at /login");
  }
  // Issuers send parameters of their own too.
  CO_ASSIGN_OR_RETURN(const auto error, text_parameter(exchange, "error"));
  if (!error.empty()) {
    co_return base::fail(ErrorCode::unauthenticated,
                         "the issuer ended the sign-in: ", service::audit_text(error));
  }
  CO_ASSIGN_OR_RETURN(auto state, text_parameter(exchange, "state"));
  CO_ASSIGN_OR_RETURN(auto code, text_parameter(exchange, "code"));
  CO_ASSIGN_OR_RETURN(auto issuer, text_parameter(exchange, "iss"));
  CO_ASSIGN_OR_RETURN(auto ended,
                      co_await browsers->finish(*attempt, std::move(state), std::move(code),
                                                std::move(issuer), exchange.remote()));
  note_person(exchange, std::move(ended.caller), "login");
  Headers headers = leading_to(std::move(ended.return_to));
  headers.emplace_back(
      "set-cookie", set_cookie(Cookie::session, ended.session, browsers->session_sec(), is_secure));
  headers.emplace_back("set-cookie", set_cookie(Cookie::attempt, "", 0, is_secure));
  co_return co_await exchange.answer_empty(kSeeOther, std::move(headers));
}

Task<Result<void>> begin_device_login(Application& application, Exchange& exchange) {
  exchange.audit().event = {};
  CO_RETURN_IF_ERROR(exchange.check_parameters({}));
  CO_ASSIGN_OR_RETURN(service::DeviceSignIn * devices, devices_of(application));
  CO_ASSIGN_OR_RETURN(const auto begun, co_await devices->begin());
  const oidc::Issuer::Device& device = begun.device;
  const wire::json::Object answer{
      {"attempt", begun.attempt},
      {"user_code", device.user_code},
      {"verification_uri", device.address},
      {"verification_uri_complete", text_or_null(device.address_with_code)},
      {"interval_sec", device.interval_sec},
      {"expires_in_sec", device.lifetime_sec}};
  co_return co_await exchange.answer_json(200, wire::json::serialize(answer),
                                          {{"cache-control", "no-store"}});
}

Task<Result<void>> finish_device_login(Application& application, Exchange& exchange) {
  exchange.audit().event = {};
  CO_RETURN_IF_ERROR(exchange.check_parameters({}));
  CO_ASSIGN_OR_RETURN(service::DeviceSignIn * devices, devices_of(application));
  CO_ASSIGN_OR_RETURN(const auto body, co_await exchange.read_body(kSmallBodyBytesMax));
  CO_ASSIGN_OR_RETURN(const auto object, wire::json::parse_object(body));
  wire::json::Reader reader(object);
  CO_ASSIGN_OR_RETURN(auto attempt, reader.required<std::string>("attempt"));
  CO_RETURN_IF_ERROR(reader.finish());
  CO_ASSIGN_OR_RETURN(auto ended, co_await devices->finish(std::move(attempt), exchange.remote()));
  if (!ended) {
    constexpr int kAccepted = 202;
    co_return co_await exchange.answer_json(kAccepted, R"({"token":null})");
  }
  const wire::json::Object answer{{"token", ended->token},
                                  {"subject", ended->caller.subject},
                                  {"expires_at", time_json(ended->caller.expires_ms)}};
  note_person(exchange, std::move(ended->caller), "login");
  co_return co_await exchange.answer_json(200, wire::json::serialize(answer),
                                          {{"cache-control", "no-store"}});
}

Task<Result<void>> logout(Application& application, Exchange& exchange) {
  exchange.audit().event = {};
  CO_RETURN_IF_ERROR(exchange.check_parameters({}));
  CO_ASSIGN_OR_RETURN(service::BrowserSignIn * browsers, browsers_of(application));
  CO_RETURN_IF_ERROR(check_own_page(exchange.request()));
  // A session that is over already is ended all the same.
  auto caller = co_await session_caller(application, exchange.request());
  if (caller && *caller) {
    CO_RETURN_IF_ERROR(co_await browsers->end(**caller));
    note_person(exchange, std::move(**caller), "logout");
  }
  const std::string url = browsers->end_session_url();
  const wire::json::Object answer{{"end_session_url", text_or_null(url)}};
  co_return co_await exchange.answer_json(
      200, wire::json::serialize(answer),
      {{"set-cookie", set_cookie(Cookie::session, "", 0, browsers->is_secure())},
       {"cache-control", "no-store"}});
}

}  // namespace server
