#include "service/browser_sign_in.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <algorithm>
#include <array>

#include "oidc/url.h"

namespace service {
namespace {

using base::ErrorCode;
using base::Result;
using net::Task;
using wire::json::Object;

constexpr std::string_view kAttemptPurpose = "sign-in.attempt";
constexpr size_t kReturnToBytesMax = 1024;
// A browser keeps 4096 bytes of a cookie, its name and attributes included.
constexpr size_t kCookieBytesMax = 3800;

std::unexpected<base::Error> not_signed_in(std::string_view why) {
  return base::fail(ErrorCode::unauthenticated, why);
}

bool are_same(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

// RFC 7636 4.2.
std::string challenge_of(std::string_view verifier) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  EVP_Digest(verifier.data(), verifier.size(), digest.data(), &size, EVP_sha256(), nullptr);
  return base::base64url({reinterpret_cast<const char*>(digest.data()), size});
}

// A place of ours: an address of another host would make us its advertisement.
Result<void> check_return_to(std::string_view path) {
  const auto is_plain = [](char c) { return c > ' ' && c < '\x7f' && c != '\\'; };
  if (!path.starts_with('/') || path.starts_with("//") || path.size() > kReturnToBytesMax ||
      !std::ranges::all_of(path, is_plain)) {
    return base::fail_field("return_to", "'return_to' must be a path, like /sandboxes");
  }
  return {};
}

// `url` with these parameters behind its own.
std::string with_parameters(const std::string& url,
                            const std::vector<std::pair<std::string_view, std::string>>& fields) {
  return base::cat(url, url.contains('?') ? '&' : '?', oidc::form_of(fields));
}

}  // namespace

Result<void> BrowserSignIn::check_configured() const {
  if (sign_in_.settings().public_url.empty() || sign_in_.settings().client_id.empty()) {
    return base::fail(ErrorCode::not_found, "sign-in by browser is not configured");
  }
  return {};
}

bool BrowserSignIn::is_secure() const { return oidc::is_https(sign_in_.settings().public_url); }

std::string BrowserSignIn::redirect_url() const {
  return sign_in_.settings().public_url + "/login/callback";
}

Result<BrowserSignIn::Begun> BrowserSignIn::begin(const std::string& return_to) {
  RETURN_IF_ERROR(check_configured());
  RETURN_IF_ERROR(check_return_to(return_to));
  ASSIGN_OR_RETURN(const oidc::Issuer::Endpoints* endpoints, sign_in_.issuer().endpoints());
  if (endpoints->authorization.empty() || endpoints->token.empty()) {
    return base::fail(ErrorCode::unavailable, "the issuer offers no sign-in by browser");
  }
  const Attempt attempt{.state = base::new_secret(context_.random),
                        .nonce = base::new_secret(context_.random),
                        .verifier = base::new_secret(context_.random),
                        .return_to = return_to};
  Begun begun;
  begun.location =
      with_parameters(endpoints->authorization, {{"response_type", "code"},
                                                 {"client_id", sign_in_.settings().client_id},
                                                 {"redirect_uri", redirect_url()},
                                                 {"scope", sign_in_.scopes()},
                                                 {"state", attempt.state},
                                                 {"nonce", attempt.nonce},
                                                 {"code_challenge", challenge_of(attempt.verifier)},
                                                 {"code_challenge_method", "S256"}});
  begun.attempt = sign_in_.seal({{"state", attempt.state},
                                 {"nonce", attempt.nonce},
                                 {"verifier", attempt.verifier},
                                 {"return_to", attempt.return_to}},
                                kAttemptSec, kAttemptPurpose);
  return begun;
}

Result<BrowserSignIn::Attempt> BrowserSignIn::open_attempt(std::string_view text) const {
  ASSIGN_OR_RETURN(const Object object, sign_in_.unseal(text, kAttemptPurpose));
  return Attempt{.state = oidc::text_claim(object, "state"),
                 .nonce = oidc::text_claim(object, "nonce"),
                 .verifier = oidc::text_claim(object, "verifier"),
                 .return_to = oidc::text_claim(object, "return_to")};
}

Task<Result<BrowserSignIn::Ended>> BrowserSignIn::finish(std::string attempt, std::string state,
                                                         std::string code, std::string issuer,
                                                         std::string remote) {
  CO_RETURN_IF_ERROR(check_configured());
  CO_ASSIGN_OR_RETURN(Attempt begun, open_attempt(attempt));
  if (state.empty() || !are_same(state, begun.state)) {
    co_return not_signed_in("this is not the sign-in that this browser began");
  }
  // RFC 9207: an answer of another issuer.
  if (!issuer.empty() && issuer != sign_in_.settings().issuer) {
    co_return not_signed_in("another issuer answers");
  }
  CO_ASSIGN_OR_RETURN(oidc::Granted granted, co_await sign_in_.issuer().exchange(
                                                 std::move(code), begun.verifier, redirect_url()));
  CO_ASSIGN_OR_RETURN(Identity identity, co_await sign_in_.identity_of_granted(
                                             std::move(granted), std::move(begun.nonce)));
  auto session = sign_in_.make_session(std::move(identity), SignIn::SessionKind::browser);
  if (session.text.size() > kCookieBytesMax) {
    co_return base::fail(ErrorCode::forbidden, "'", session.identity->subject,
                         "' is in more groups of the configuration than a cookie holds");
  }
  CO_ASSIGN_OR_RETURN(Caller caller, sign_in_.caller_of(session.identity));
  CO_RETURN_IF_ERROR(co_await sign_in_.keep_session(session, std::move(remote)));
  co_return Ended{.return_to = std::move(begun.return_to),
                  .session = std::move(session.text),
                  .caller = std::move(caller)};
}

Task<Result<Caller>> BrowserSignIn::open(std::string session) {
  auto caller = sign_in_.open_session(session, SignIn::SessionKind::browser);
  if (!caller) {
    const bool found = co_await sign_in_.look_up_session(session, SignIn::SessionKind::browser);
    if (found) {
      co_return sign_in_.open_session(session, SignIn::SessionKind::browser);
    }
  }
  co_return caller;
}

Task<Result<void>> BrowserSignIn::end(const Caller& caller) {
  std::vector<std::string> ids{caller.identity->sign_in};
  co_return co_await sign_in_.records().end(std::move(ids));
}

std::string BrowserSignIn::end_session_url() const {
  const auto endpoints = sign_in_.issuer().endpoints();
  if (!endpoints || (*endpoints)->end_session.empty()) {
    return "";
  }
  return with_parameters((*endpoints)->end_session,
                         {{"client_id", sign_in_.settings().client_id},
                          {"post_logout_redirect_uri", sign_in_.settings().public_url + "/"}});
}

}  // namespace service
