// Identities of sandboxes (docs/identity.md): the routes of an issuer of OpenID Connect, the token
// exchange of RFC 8693, and what an operator does with the keys.
#include <algorithm>
#include <array>

#include "oidc/claims.h"
#include "server/answers_json.h"
#include "server/handlers.h"
#include "service/token_exchange.h"

namespace server {
namespace {

using wire::json::Array;
using wire::json::Object;

constexpr std::string_view kTokenPath = "/oauth/token";
constexpr std::string_view kKeysPath = "/.well-known/jwks.json";
constexpr int64_t kMsPerSecond = 1000;
constexpr int kBadRequest = 400;
constexpr int kUnavailable = 503;

// Verifiers fetch the keys as often as they like; the next one is among them long before it signs.
Headers cached() { return {{"cache-control", "public, max-age=300"}}; }
Headers not_stored() { return {{"cache-control", "no-store"}, {"pragma", "no-cache"}}; }

// A form's fields (application/x-www-form-urlencoded). malformed; a repeated one is, too.
Result<std::vector<std::pair<std::string, std::string>>> parse_form(std::string_view body) {
  std::vector<std::pair<std::string, std::string>> out;
  for (const std::string_view pair : base::split(body, '&')) {
    if (pair.empty()) {
      continue;
    }
    const size_t equals = std::min(pair.find('='), pair.size());
    const auto decode = [](std::string_view part) {
      std::string text(part);
      std::ranges::replace(text, '+', ' ');
      return base::percent_decode(text);
    };
    auto name = decode(pair.substr(0, equals));
    auto value = decode(pair.substr(std::min(equals + 1, pair.size())));
    if (!name || !value || !base::is_utf8(*value)) {
      return base::fail(ErrorCode::malformed, "the body is not a form");
    }
    const bool is_repeated =
        std::ranges::any_of(out, [&](const auto& known) { return known.first == *name; });
    if (is_repeated) {
      return base::fail(ErrorCode::malformed, "a parameter is there twice");
    }
    out.emplace_back(std::move(*name), std::move(*value));
  }
  return out;
}

Result<service::TokenExchange::Request> parse_exchange(const wire::http::Request& request,
                                                       std::string_view body) {
  constexpr std::string_view kForm = "application/x-www-form-urlencoded";
  const std::string* type = request.find("content-type");
  const std::string_view given = type == nullptr ? std::string_view() : *type;
  if (!base::equals_ignoring_case(base::trim(given.substr(0, given.find(';'))), kForm)) {
    return base::fail(ErrorCode::malformed, "the body must be ", kForm);
  }
  ASSIGN_OR_RETURN(auto fields, parse_form(body));
  service::TokenExchange::Request out;
  const std::pair<std::string_view, std::string*> known[] = {
      {"grant_type", &out.grant_type},
      {"subject_token", &out.subject_token},
      {"subject_token_type", &out.subject_token_type},
      {"requested_token_type", &out.requested_token_type},
      {"audience", &out.audience},
      {"resource", &out.resource},
      {"scope", &out.scope},
      {"actor_token", &out.actor_token}};
  for (auto& [name, value] : fields) {
    for (const auto& [wanted, into] : known) {
      if (name == wanted) {
        *into = std::move(value);
        break;
      }
    }
  }
  return out;  // others are to be ignored (RFC 6749 3.2)
}

Task<Result<void>> answer_oauth_error(Exchange& exchange, const Error& error) {
  const std::string word = service::TokenExchange::oauth_word(error);
  exchange.audit().error = base::to_string(error.code);
  const Object body{{"error", word}, {"error_description", error.message}};
  const bool is_passing = word == "temporarily_unavailable";
  Headers headers = not_stored();
  if (is_passing) {
    headers.emplace_back("retry-after", "1");
  }
  co_return co_await exchange.answer_json(is_passing ? kUnavailable : kBadRequest,
                                          wire::json::serialize(body), std::move(headers));
}

// The row is the sandbox's.
void note_sandbox(Exchange& exchange, const service::TokenExchange::Outcome& outcome,
                  const std::string& audience) {
  if (outcome.sandbox.empty()) {
    return;
  }
  service::Caller caller{.team = outcome.team,
                         .subject = base::cat(service::kSandboxSubject, outcome.sandbox),
                         .remote = exchange.remote()};
  exchange.set_caller(std::move(caller));
  exchange.audit().event = "token.exchange";
  exchange.audit().sandbox = outcome.sandbox;
  exchange.note("audience", service::audit_text(audience));
}

}  // namespace

Task<Result<void>> openid_configuration(Application& application, Exchange& exchange) {
  const std::string& issuer = application.identity.settings().issuer;
  const Object document{
      {"issuer", issuer},
      {"jwks_uri", base::cat(issuer, kKeysPath)},
      {"token_endpoint", base::cat(issuer, kTokenPath)},
      {"response_types_supported", Array{"id_token"}},
      {"subject_types_supported", Array{"public"}},
      {"id_token_signing_alg_values_supported", Array{"ES256"}},
      {"grant_types_supported", Array{"urn:ietf:params:oauth:grant-type:token-exchange"}},
      {"token_endpoint_auth_methods_supported", Array{"none"}},
      {"claims_supported", Array{"iss", "sub", "aud", "iat", "nbf", "exp", "jti", "sandbox", "team",
                                 "owner", "image", "image_digest", "labels"}}};
  co_return co_await exchange.answer_json(200, wire::json::serialize(document), cached());
}

Task<Result<void>> identity_key_set(Application& application, Exchange& exchange) {
  co_return co_await exchange.answer_json(200, application.identity.keys().published(), cached());
}

Task<Result<void>> exchange_token(Application& application, Exchange& exchange) {
  exchange.audit().event = {};
  if (const auto checked = exchange.check_parameters({}); !checked) {
    co_return co_await answer_oauth_error(exchange, checked.error());
  }
  CO_ASSIGN_OR_RETURN(const std::string body, co_await exchange.read_body(kSmallBodyBytesMax));
  auto request = parse_exchange(exchange.request(), body);
  if (!request) {
    co_return co_await answer_oauth_error(exchange, request.error());
  }
  const std::string audience = request->audience;
  const auto outcome = co_await application.exchange.exchange(std::move(*request));
  note_sandbox(exchange, outcome, audience);
  if (!outcome.granted) {
    co_return co_await answer_oauth_error(exchange, outcome.granted.error());
  }
  const auto& granted = *outcome.granted;
  const int64_t left_ms = granted.expires_ms - application.identity.now_ms();
  Object answer{{"access_token", granted.token.reveal()},  // to the sandbox that asked
                {"issued_token_type", granted.issued_token_type},
                {"token_type", granted.token_type},
                {"expires_in", left_ms / kMsPerSecond}};
  if (!granted.scope.empty()) {
    answer["scope"] = granted.scope;
  }
  co_return co_await exchange.answer_json(200, wire::json::serialize(answer), not_stored());
}

Task<Result<void>> make_identity_token(Application& application, Exchange& exchange) {
  CO_RETURN_IF_ERROR(exchange.check_parameters({}));
  CO_ASSIGN_OR_RETURN(const auto body, co_await exchange.read_body(kSmallBodyBytesMax));
  CO_ASSIGN_OR_RETURN(const auto object,
                      wire::json::parse_object(body.empty() ? std::string_view("{}") : body));
  wire::json::Reader reader(object);
  CO_ASSIGN_OR_RETURN(auto audience, reader.optional<std::string>("audience"));
  CO_RETURN_IF_ERROR(reader.finish());
  CO_RETURN_IF_ERROR(application.identity.check_audience(audience.value_or("")));
  const auto live = application.sandboxes.find_live(exchange.caller(), exchange.segment(0));
  if (!live) {
    co_return base::fail(ErrorCode::not_found, "sandbox '", exchange.segment(0),
                         "' does not exist");
  }
  if (live->row.state != service::SandboxState::ready) {
    auto error =
        base::fail(ErrorCode::not_ready, "the sandbox is ", model::to_string(live->row.state));
    error.error().details.emplace_back("state", model::to_string(live->row.state));
    co_return error;
  }
  const std::string& issuer = application.identity.settings().issuer;
  const std::string wanted = audience.value_or("").empty() ? issuer : *audience;
  exchange.note("audience", service::audit_text(wanted));
  const auto issued = application.identity.identity_token(live->row, wanted);
  const Object answer{{"token", issued.text},
                      {"audience", wanted},
                      {"issuer", issuer},
                      {"subject", base::cat(service::kSandboxSubject, live->row.id)},
                      {"expires_at", time_json(issued.expires_ms)}};
  co_return co_await exchange.answer_json(200, wire::json::serialize(answer), not_stored());
}

namespace {

Object keys_json(service::IdentityKeys& keys) {
  Array items;
  bool is_next = false;
  for (const store::IdentityKey& row : keys.rows()) {
    const bool has_ended = row.ended_ms != 0;
    items.push_back(Object{{"id", row.id},
                           {"state", has_ended ? "ended"
                                     : is_next ? "next"
                                               : "signing"},
                           {"created_at", time_json(row.created_ms)},
                           {"ended_at", time_json(row.ended_ms)}});
    is_next = is_next || !has_ended;
  }
  return Object{{"items", std::move(items)}};
}

}  // namespace

Task<Result<void>> list_identity_keys(Application& application, Exchange& exchange) {
  CO_RETURN_IF_ERROR(exchange.check_parameters({}));
  co_return co_await exchange.answer_json(
      200, wire::json::serialize(keys_json(application.identity.keys())));
}

Task<Result<void>> rotate_identity_keys(Application& application, Exchange& exchange) {
  CO_RETURN_IF_ERROR(exchange.check_parameters({}));
  CO_RETURN_IF_ERROR(co_await application.identity.keys().rotate());
  exchange.note("key", application.identity.keys().signer().id());
  co_return co_await exchange.answer_json(
      200, wire::json::serialize(keys_json(application.identity.keys())));
}

}  // namespace server
