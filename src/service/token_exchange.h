// TokenExchange: an identity token of a sandbox for another token (RFC 8693): of this gateway, an
// identity token for one of the operator's audiences, or what an outside service gives for one.
// Credentials that are written into sandboxes are made here too. Owned by main; loop thread only;
// outside services are asked on threads of its own, kAsksMax at once.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/secret.h"
#include "oidc/http.h"
#include "service/credential_templates.h"
#include "service/sandbox_identity.h"

namespace service {

class TokenExchange {
 public:
  static constexpr size_t kAsksMax = 32;
  // Everybody can send tokens that are none, and each costs a check of a signature.
  static constexpr int kRefusedPerSecond = 200;

  TokenExchange(Context& context, SandboxIdentity& identity, const CredentialSettings& settings,
                oidc::Http& http);

  // The parameters of a request, as they came; what is empty is not there.
  struct Request {
    std::string grant_type;
    std::string subject_token;
    std::string subject_token_type;
    std::string requested_token_type;
    std::string audience;
    std::string resource;
    std::string scope;
    std::string actor_token;
  };
  struct Granted {
    base::Secret token;
    std::string issued_token_type;
    std::string token_type;  // Bearer, N_A, or what a service says
    int64_t expires_ms = 0;
    std::string scope;  // of this gateway's
  };
  struct Outcome {
    std::string sandbox;  // whose token it was
    std::string team;
    base::Result<Granted> granted = Granted{};
  };
  // Errors have the word of RFC 6749 5.2 or RFC 8693 2.2.2 in details.oauth.
  net::Task<Outcome> exchange(Request request);
  static std::string oauth_word(const base::Error& error);

  // What a template's token is. Errors: forbidden, unavailable, overloaded.
  net::Task<base::Result<Granted>> obtain(SandboxRow row, TokenSource source);

 private:
  net::Task<base::Result<Granted>> grant(SandboxRow row, Request request);
  net::Task<base::Result<Granted>> ask(SandboxRow row, const OutsideService* service);
  [[nodiscard]] base::Result<Granted> own(const SandboxRow& row,
                                          const std::vector<std::string>& scopes) const;
  [[nodiscard]] Granted identity_for(const SandboxRow& row, std::string_view audience) const;
  base::Result<LivePtr> subject_of(const Request& request);

  Context& context_;
  SandboxIdentity& identity_;
  const CredentialSettings& settings_;
  oidc::Http& http_;
  net::BlockingPool pool_;
  size_t asks_ = 0;
  int64_t second_ = 0;
  int refused_ = 0;  // in that second
};

}  // namespace service
