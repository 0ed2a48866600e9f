#include "service/token_exchange.h"

#include <algorithm>

#include "oidc/claims.h"
#include "oidc/url.h"

namespace service {
namespace {

using base::ErrorCode;
using base::Result;
using net::Task;
using Granted = TokenExchange::Granted;

constexpr size_t kAskThreads = 4;
constexpr int64_t kMsPerSecond = 1000;
constexpr size_t kTokenBytesMax = size_t{32} * 1024;  // of an outside service
constexpr size_t kWordBytesMax = 100;
// Of a service that does not say how long its token is good.
constexpr int64_t kUnsaidSec = 300;
constexpr int64_t kSecondsMax = int64_t{365} * 24 * 3600;

constexpr std::string_view kGrant = "urn:ietf:params:oauth:grant-type:token-exchange";
constexpr std::string_view kJwt = "urn:ietf:params:oauth:token-type:jwt";
constexpr std::string_view kIdToken = "urn:ietf:params:oauth:token-type:id_token";
constexpr std::string_view kAccessToken = "urn:ietf:params:oauth:token-type:access_token";

template <typename... Parts>
std::unexpected<base::Error> refused(std::string_view word, const Parts&... parts) {
  auto failed = base::fail(ErrorCode::malformed, parts...);
  failed.error().details.emplace_back("oauth", word);
  return failed;
}

// A word of a service that can stand in a message.
std::string printable(std::string text) {
  text.resize(std::min(text.size(), kWordBytesMax));
  std::erase_if(text, [](char c) { return c < ' ' || c > '~'; });
  return text;
}

std::vector<std::string> scopes_in(std::string_view text) {
  std::vector<std::string> out;
  for (const std::string_view word : base::split(text, ' ')) {
    if (!word.empty()) {
      out.emplace_back(word);
    }
  }
  return out;
}

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) {
    out += base::cat(out.empty() ? "" : " ", word);
  }
  return out;
}

Result<void> check_request(const TokenExchange::Request& request) {
  if (request.grant_type != kGrant) {
    return request.grant_type.empty()
               ? Result<void>(refused("invalid_request", "'grant_type' is missing"))
               : refused("unsupported_grant_type", "'grant_type' must be ", kGrant);
  }
  if (request.subject_token.empty()) {
    return refused("invalid_request", "'subject_token' is missing");
  }
  if (request.subject_token_type != kJwt && request.subject_token_type != kIdToken) {
    return refused("invalid_request", "'subject_token_type' must be ", kJwt, " or ", kIdToken);
  }
  if (!request.actor_token.empty()) {
    return refused("invalid_request", "'actor_token' is not supported");
  }
  return {};
}

// What a service answered to a token exchange.
Result<Granted> read_answer(const OutsideService& service, const oidc::HttpAnswer& answer,
                            int64_t now_ms) {
  constexpr int kOk = 200;
  const auto object = wire::json::parse_object(answer.body);
  if (answer.status != kOk || !object) {
    const std::string word = object ? printable(oidc::text_claim(*object, "error")) : "";
    return base::fail(ErrorCode::unavailable, "service '", service.name, "' answered with status ",
                      answer.status, word.empty() ? "" : ": ", word);
  }
  std::string token = oidc::text_claim(*object, "access_token");
  // RFC 6749, A.12. Anything else would end a line of a file or a variable inside.
  const bool is_token = !token.empty() && token.size() <= kTokenBytesMax &&
                        std::ranges::all_of(token, [](char c) { return c >= ' ' && c <= '~'; });
  if (!is_token) {
    return base::fail(ErrorCode::unavailable, "service '", service.name, "' gave no token");
  }
  const auto* seconds = object->if_contains("expires_in");
  const bool is_said = seconds != nullptr && seconds->is_int64() && seconds->get_int64() > 0;
  const int64_t life = is_said ? std::min(seconds->get_int64(), kSecondsMax) : kUnsaidSec;
  std::string issued = printable(oidc::text_claim(*object, "issued_token_type"));
  std::string type = printable(oidc::text_claim(*object, "token_type"));
  return Granted{.token = base::Secret(std::move(token)),
                 .issued_token_type = issued.empty() ? std::string(kAccessToken) : issued,
                 .token_type = type.empty() ? "Bearer" : type,
                 .expires_ms = now_ms + life * kMsPerSecond,
                 .scope = printable(oidc::text_claim(*object, "scope"))};
}

oidc::HttpRequest exchange_request(const OutsideService& service, std::string identity_token) {
  std::vector<std::pair<std::string_view, std::string>> form{
      {"grant_type", std::string(kGrant)},
      {"subject_token", std::move(identity_token)},
      {"subject_token_type", std::string(kJwt)}};
  const std::pair<std::string_view, const std::string*> more[] = {
      {"audience", &service.target},
      {"resource", &service.resource},
      {"scope", &service.scope},
      {"requested_token_type", &service.token_type}};
  for (const auto& [name, value] : more) {
    if (!value->empty()) {
      form.emplace_back(name, *value);
    }
  }
  oidc::HttpRequest request{.url = service.token_endpoint};
  if (!service.client_secret.empty()) {
    request.username = service.client_id;
    request.password = service.client_secret;
  } else if (!service.client_id.empty()) {
    form.emplace_back("client_id", service.client_id);
  }
  request.form = oidc::form_of(form);
  return request;
}

}  // namespace

TokenExchange::TokenExchange(Context& context, SandboxIdentity& identity,
                             const CredentialSettings& settings, oidc::Http& http)
    : context_(context),
      identity_(identity),
      settings_(settings),
      http_(http),
      pool_(context.loop, kAskThreads) {}

std::string TokenExchange::oauth_word(const base::Error& error) {
  for (const auto& [name, value] : error.details) {
    if (name == "oauth") {
      return value;
    }
  }
  return error.code == ErrorCode::overloaded || error.code == ErrorCode::unavailable
             ? "temporarily_unavailable"
             : "invalid_request";
}

Granted TokenExchange::identity_for(const SandboxRow& row, std::string_view audience) const {
  auto issued = identity_.identity_token(row, audience);
  return {.token = base::Secret(std::move(issued.text)),
          .issued_token_type = std::string(kJwt),
          .token_type = "N_A",
          .expires_ms = issued.expires_ms,
          .scope = {}};
}

Result<Granted> TokenExchange::own(const SandboxRow& row,
                                   const std::vector<std::string>& scopes) const {
  ASSIGN_OR_RETURN(auto issued, identity_.access_token(row, scopes));
  return Granted{.token = base::Secret(std::move(issued.text)),
                 .issued_token_type = std::string(kAccessToken),
                 .token_type = "Bearer",
                 .expires_ms = issued.expires_ms,
                 .scope = joined(identity_.scopes_of(row, scopes))};
}

Task<Result<Granted>> TokenExchange::ask(SandboxRow row, const OutsideService* service) {
  if (asks_ >= kAsksMax) {
    co_return base::fail(ErrorCode::overloaded, "too many exchanges of tokens are under way");
  }
  auto request = exchange_request(*service, identity_.identity_token(row, service->audience).text);
  auto send = [this, &request] { return http_.send(request); };
  ++asks_;
  const auto answer = co_await pool_.run(std::move(send));
  --asks_;
  if (!answer) {
    co_return base::fail(ErrorCode::unavailable, "service '", service->name,
                         "' does not answer: ", answer.error().message);
  }
  co_return read_answer(*service, *answer, context_.now_ms());
}

Task<Result<Granted>> TokenExchange::obtain(SandboxRow row, TokenSource source) {
  switch (source.kind) {
    case TokenSource::Kind::gateway:
      co_return own(row, {});
    case TokenSource::Kind::audience:
      co_return identity_for(row, source.name);
    case TokenSource::Kind::service:
      break;
  }
  co_return co_await ask(std::move(row), settings_.find_service(source.name));
}

Result<LivePtr> TokenExchange::subject_of(const Request& request) {
  const int64_t second = context_.now_ms() / kMsPerSecond;
  if (std::exchange(second_, second) != second) {
    refused_ = 0;
  }
  if (refused_ >= kRefusedPerSecond) {
    return base::fail(ErrorCode::overloaded, "too many tokens that are not valid");
  }
  auto live = identity_.sandbox_of(request.subject_token);
  if (!live) {
    ++refused_;
    return refused("invalid_request", "'subject_token': ", live.error().message);
  }
  return live;
}

Task<Result<Granted>> TokenExchange::grant(SandboxRow row, Request request) {
  const std::string& type = request.requested_token_type;
  const bool is_own = request.audience.empty() || request.audience == identity_.settings().issuer;
  if (!request.resource.empty() && request.resource != identity_.settings().issuer) {
    co_return refused("invalid_target", "'resource' must be ", identity_.settings().issuer);
  }
  if (is_own) {
    if (!type.empty() && type != kAccessToken) {
      co_return refused("invalid_request", "'requested_token_type' must be ", kAccessToken);
    }
    const auto scopes = scopes_in(request.scope);
    auto granted = own(row, scopes);
    if (!granted) {
      co_return refused("invalid_scope", granted.error().message);
    }
    co_return granted;
  }
  if (!request.scope.empty()) {
    co_return refused("invalid_scope", "'scope' is of this gateway's tokens only");
  }
  if (std::ranges::find(settings_.audiences, request.audience) != settings_.audiences.end()) {
    if (!type.empty() && type != kJwt && type != kIdToken) {
      co_return refused("invalid_request", "'requested_token_type' must be ", kJwt);
    }
    co_return identity_for(row, request.audience);
  }
  const OutsideService* service = settings_.find_service(request.audience);
  if (service == nullptr) {
    co_return refused("invalid_target", "'audience' is none that the operator has configured");
  }
  co_return co_await ask(std::move(row), service);
}

Task<TokenExchange::Outcome> TokenExchange::exchange(Request request) {
  Outcome outcome;
  if (auto checked = check_request(request); !checked) {
    outcome.granted = std::unexpected(std::move(checked).error());
    co_return outcome;
  }
  const auto live = subject_of(request);
  if (!live) {
    outcome.granted = std::unexpected(live.error());
    co_return outcome;
  }
  outcome.sandbox = (*live)->row.id;
  outcome.team = (*live)->row.team;
  auto granted = co_await grant((*live)->row, std::move(request));
  outcome.granted = std::move(granted);
  co_return outcome;
}

}  // namespace service
