// Sign-in by browser: the authorization code flow of OpenID Connect with PKCE, state and nonce, and
// the session that it ends with. Nothing of it is kept here but that a session has not ended
// (SignIns): what has to be remembered between two requests is sealed (service/secret_box.h) into
// cookies of the browser, so that any gateway with the same key goes on where another began. What a
// page of another origin can make a browser send is not enough: the server takes a session only
// with a header that such a page cannot set. Owned by main; loop thread only.
#pragma once

#include <string>
#include <string_view>

#include "service/sign_in.h"

namespace service {

class BrowserSignIn {
 public:
  // From the first redirect to the last; people have to find their second factor.
  static constexpr int64_t kAttemptSec = 600;

  BrowserSignIn(Context& context, SignIn& sign_in) : context_(context), sign_in_(sign_in) {}

  // not_found: the operator has not configured it.
  [[nodiscard]] base::Result<void> check_configured() const;

  struct Begun {
    std::string location;  // of the issuer
    std::string attempt;   // what the browser keeps until it comes back
  };
  // `return_to`: a path of ours where it ends. invalid_field, unavailable.
  base::Result<Begun> begin(const std::string& return_to);

  struct Ended {
    std::string return_to;
    std::string session;
    Caller caller;
  };
  // The browser came back with these. unauthenticated: not what was begun, or the issuer or its
  // token says no; forbidden: in no team; unavailable, overloaded.
  net::Task<base::Result<Ended>> finish(std::string attempt, std::string state, std::string code,
                                        std::string issuer, std::string remote);

  // The caller of a session. unauthenticated: none of ours, ended, or too old; forbidden: in no
  // team.
  net::Task<base::Result<Caller>> open(std::string session);
  // It opens nothing any more, whoever has a copy.
  net::Task<base::Result<void>> end(const Caller& caller);
  // Where the browser ends its session with the issuer too; empty: the issuer offers no such place.
  [[nodiscard]] std::string end_session_url() const;

  // Which group of the issuer is in which team.
  [[nodiscard]] const std::vector<GroupRule>& group_rules() const {
    return sign_in_.settings().groups;
  }

  // Whether the browser speaks HTTPS with us, so that cookies may say so.
  [[nodiscard]] bool is_secure() const;
  [[nodiscard]] int64_t session_sec() const { return sign_in_.settings().session_sec; }

 private:
  struct Attempt {
    std::string state;
    std::string nonce;
    std::string verifier;
    std::string return_to;
  };
  [[nodiscard]] std::string redirect_url() const;
  [[nodiscard]] base::Result<Attempt> open_attempt(std::string_view text) const;

  Context& context_;
  SignIn& sign_in_;
};

}  // namespace service
