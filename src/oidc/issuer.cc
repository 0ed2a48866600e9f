#include "oidc/issuer.h"

#include <algorithm>

#include "oidc/claims.h"
#include "oidc/url.h"

namespace oidc {
namespace {

using net::Task;
using wire::json::Object;

constexpr std::chrono::seconds kRetryMost{60};
constexpr int kOk = 200;
// Sign-ins at once that the issuer is asked for; each takes a few round trips.
constexpr size_t kAskThreads = 4;
constexpr size_t kCodeBytesMax = 4096;
// RFC 6749 5.2 has words like "invalid_grant".
constexpr size_t kReasonBytesMax = 64;

// The longest that a person has for it.
constexpr int64_t kDeviceSecondsMax = 1800;

// What a terminal shows as it is.
bool is_printable(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c >= ' ' && c < '\x7f'; });
}

// What a person is sent to.
bool is_address(std::string_view url) {
  return is_printable(url) && check_url("url", url.substr(0, url.find('?'))).has_value();
}

Result<Object> parse_answer(const HttpAnswer& answer, const std::string& url) {
  if (answer.status != kOk) {
    return base::fail(ErrorCode::unavailable, "ask ", url, ": status ", answer.status);
  }
  auto object = wire::json::parse_object(answer.body);
  if (!object) {
    return base::fail(ErrorCode::unavailable, "ask ", url, ": ", object.error().message);
  }
  return object;
}

}  // namespace

Issuer::Issuer(net::EventLoop& loop, base::Clock& clock, base::Log& log, Http& http,
               Settings settings)
    : clock_(clock),
      log_(log),
      http_(http),
      settings_(std::move(settings)),
      loop_(loop),
      fetched_(loop),
      fetch_pool_(loop, 1),
      ask_pool_(loop, kAskThreads),
      group_(loop) {}

void Issuer::start() { group_.spawn(run()); }

Task<void> Issuer::stop() {
  group_.cancel();
  co_await group_.join();
}

Result<Object> Issuer::fetch_document(const std::string& url) {
  ASSIGN_OR_RETURN(const HttpAnswer answer, http_.send({.url = url}));
  return parse_answer(answer, url);
}

Result<Issuer::Endpoints> Issuer::read_discovery(const Object& document) const {
  if (text_claim(document, "issuer") != settings_.url) {
    return base::fail(ErrorCode::unavailable, "the document of ", settings_.url,
                      " names another issuer: ", text_claim(document, "issuer"));
  }
  Endpoints endpoints{
      .keys = text_claim(document, "jwks_uri"),
      .authorization = text_claim(document, "authorization_endpoint"),
      .token = text_claim(document, "token_endpoint"),
      .userinfo = text_claim(document, "userinfo_endpoint"),
      .end_session = text_claim(document, "end_session_endpoint"),
      .device_authorization = text_claim(document, "device_authorization_endpoint")};
  const auto methods = list_claim(document, "token_endpoint_auth_methods_supported");
  // What a client is registered with where nobody says otherwise.
  endpoints.takes_basic =
      methods.empty() || std::ranges::find(methods, "client_secret_basic") != methods.end();
  for (const std::string* url :
       {&endpoints.keys, &endpoints.authorization, &endpoints.token, &endpoints.userinfo,
        &endpoints.end_session, &endpoints.device_authorization}) {
    if (url->empty() && url != &endpoints.keys) {
      continue;
    }
    // What the issuer names is on no weaker way than the issuer itself.
    const std::string_view plain_part = std::string_view(*url).substr(0, url->find('?'));
    if (!check_url("url", plain_part) || (is_https(settings_.url) && !is_https(*url))) {
      return base::fail(ErrorCode::unavailable, "the document of ", settings_.url,
                        " names an address that is none to trust: '", *url, "'");
    }
  }
  return endpoints;
}

Result<Issuer::Known> Issuer::fetch() {
  ASSIGN_OR_RETURN(const Object document,
                   fetch_document(settings_.url + (settings_.url.ends_with('/') ? "" : "/") +
                                  ".well-known/openid-configuration"));
  ASSIGN_OR_RETURN(Endpoints endpoints, read_discovery(document));
  ASSIGN_OR_RETURN(const HttpAnswer answer, http_.send({.url = endpoints.keys}));
  if (answer.status != kOk) {
    return base::fail(ErrorCode::unavailable, "ask ", endpoints.keys, ": status ", answer.status);
  }
  ASSIGN_OR_RETURN(KeySet keys,
                   base::with_context(KeySet::parse(answer.body), "keys of " + endpoints.keys));
  return Known{.endpoints = std::move(endpoints), .keys = std::move(keys)};
}

Task<void> Issuer::fetch_once() {
  fetching_ = true;
  tried_at_ = clock_.steady();
  auto work = [this] { return fetch(); };
  auto known = co_await fetch_pool_.run(std::move(work));
  fetching_ = false;
  ++fetches_;
  if (known) {
    if (!known_ || failing_) {
      log_.info("the issuer answers", {{"issuer", settings_.url}});
    }
    known_ = std::move(*known);
    fetched_at_ = clock_.steady();
    ++keys_version_;
  } else if (!failing_) {
    log_.warning("the issuer does not answer as it should",
                 {{"issuer", settings_.url}, {"error", known.error().message}});
  }
  failing_ = !known.has_value();
  fetched_.notify();
}

Task<void> Issuer::run() {
  base::Milliseconds retry = kFetchPause;
  for (;;) {
    if (!fetching_) {
      co_await fetch_once();
    }
    retry = failing_ ? std::min<base::Milliseconds>(retry * 2, kRetryMost)
                     : base::Milliseconds(kFetchPause);
    const auto pause = failing_ ? retry / 2 : base::Milliseconds(kFetchEvery);
    if (co_await loop_.sleep_until(net::Deadline::after(pause)) ==
        net::EventLoop::Wake::cancelled) {
      co_return;
    }
  }
}

const KeySet* Issuer::keys() const {
  return known_ && clock_.steady() - fetched_at_ < kKeysHoldFor ? &known_->keys : nullptr;
}

Task<void> Issuer::fetch_again() {
  if (!fetching_) {
    if (fetches_ > 0 && clock_.steady() - tried_at_ < kFetchPause) {
      co_return;
    }
    group_.spawn(fetch_once());
  }
  const auto deadline = net::Deadline::after(kFetchPatience);
  const uint64_t before = fetches_;
  while (fetches_ == before) {
    if (co_await fetched_.wait(deadline) != net::EventLoop::Wake::ready) {
      co_return;
    }
  }
}

Result<const Issuer::Endpoints*> Issuer::endpoints() const {
  if (!known_) {
    return base::fail(ErrorCode::unavailable, "the issuer does not answer");
  }
  return &known_->endpoints;
}

Task<Result<HttpAnswer>> Issuer::ask(HttpRequest request) {
  const auto now = clock_.steady();
  if (now - asks_since_ >= std::chrono::seconds(1)) {
    asks_since_ = now;
    asks_ = 0;
  }
  if (exchanges_ >= kExchangesMax || asks_ >= kAsksInSecondMax) {
    co_return base::fail(ErrorCode::overloaded, "too many sign-ins at once");
  }
  ++asks_;
  ++exchanges_;
  auto work = [this, &request] { return http_.send(request); };
  auto answer = co_await ask_pool_.run(std::move(work));
  --exchanges_;
  co_return answer;
}

HttpRequest Issuer::client_request(const std::string& url, Form form) const {
  HttpRequest request{.url = url};
  const bool takes_basic = !known_ || known_->endpoints.takes_basic;
  if (!settings_.client_secret.empty() && takes_basic) {
    request.username = settings_.client_id;
    request.password = settings_.client_secret;
  } else {
    form.emplace_back("client_id", settings_.client_id);
    if (!settings_.client_secret.empty()) {
      form.emplace_back("client_secret", settings_.client_secret.reveal());  // to the issuer
    }
  }
  request.form = form_of(form);
  return request;
}

Task<Result<std::optional<Granted>>> Issuer::grant(Form form) {
  CO_ASSIGN_OR_RETURN(const Endpoints* known, endpoints());
  const std::string url = known->token;
  CO_ASSIGN_OR_RETURN(const HttpAnswer answer, co_await ask(client_request(url, std::move(form))));
  constexpr int kHundred = 100;
  if (answer.status / kHundred == 4) {
    const auto why = wire::json::parse_object(answer.body);
    const std::string word =
        why ? text_claim(*why, "error").substr(0, kReasonBytesMax) : base::cat(answer.status);
    if (word == "authorization_pending" || word == "slow_down") {
      co_return std::nullopt;
    }
    co_return base::fail(ErrorCode::unauthenticated, "the issuer refuses the sign-in: ", word);
  }
  CO_ASSIGN_OR_RETURN(const Object tokens, parse_answer(answer, url));
  co_return Granted{.id_token = text_claim(tokens, "id_token"),
                    .access_token = base::Secret(text_claim(tokens, "access_token"))};
}

Task<Result<Granted>> Issuer::exchange(std::string code, std::string verifier,
                                       std::string redirect_url) {
  if (code.empty() || code.size() > kCodeBytesMax) {
    co_return base::fail_field("code", "'code' must have 1 to ", kCodeBytesMax, " bytes");
  }
  CO_ASSIGN_OR_RETURN(auto granted, co_await grant({{"grant_type", "authorization_code"},
                                                    {"code", std::move(code)},
                                                    {"redirect_uri", std::move(redirect_url)},
                                                    {"code_verifier", std::move(verifier)}}));
  if (!granted) {
    co_return base::fail(ErrorCode::unauthenticated, "the issuer refuses the sign-in");
  }
  co_return std::move(*granted);
}

Task<Result<Issuer::Device>> Issuer::begin_device(std::string scopes) {
  CO_ASSIGN_OR_RETURN(const Endpoints* known, endpoints());
  if (known->device_authorization.empty()) {
    co_return base::fail(ErrorCode::not_supported, "the issuer offers no sign-in of devices");
  }
  const std::string url = known->device_authorization;
  CO_ASSIGN_OR_RETURN(const HttpAnswer answer,
                      co_await ask(client_request(url, {{"scope", std::move(scopes)}})));
  CO_ASSIGN_OR_RETURN(const Object object, parse_answer(answer, url));
  const auto seconds_of = [&object](std::string_view name, int64_t fallback) {
    const auto* value = object.if_contains(name);
    const bool is_right = value != nullptr && value->is_int64() && value->get_int64() > 0;
    return is_right ? std::min(value->get_int64(), kDeviceSecondsMax) : fallback;
  };
  Device device{.code = text_claim(object, "device_code"),
                .user_code = text_claim(object, "user_code"),
                .address = text_claim(object, "verification_uri"),
                .address_with_code = text_claim(object, "verification_uri_complete"),
                .interval_sec = seconds_of("interval", Device{}.interval_sec),
                .lifetime_sec = seconds_of("expires_in", kDeviceSecondsMax)};
  if (device.code.empty() || device.code.size() > kCodeBytesMax || device.user_code.empty() ||
      device.user_code.size() > kReasonBytesMax || !is_printable(device.user_code) ||
      !is_address(device.address) ||
      (!device.address_with_code.empty() && !is_address(device.address_with_code))) {
    co_return base::fail(ErrorCode::unavailable, "ask ", url, ": that is no answer of RFC 8628");
  }
  co_return device;
}

Task<Result<std::optional<Granted>>> Issuer::finish_device(std::string code) {
  co_return co_await grant({{"grant_type", "urn:ietf:params:oauth:grant-type:device_code"},
                            {"device_code", std::move(code)}});
}

Task<Result<Object>> Issuer::user_info(base::Secret access_token) {
  CO_ASSIGN_OR_RETURN(const Endpoints* known, endpoints());
  const std::string url = known->userinfo;
  CO_ASSIGN_OR_RETURN(const HttpAnswer answer,
                      co_await ask({.url = url, .bearer = std::move(access_token)}));
  co_return parse_answer(answer, url);
}

}  // namespace oidc
