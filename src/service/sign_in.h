// Sign-in: people who show tokens or sessions of the configured OpenID issuer, as callers. Who they
// are, the issuer says (signature, claims); what they may do, the groups of the configuration and
// the members' lists of the teams, looked up at each request. Owned by main; loop thread only.
// Bounded: kKnownMax checked tokens are remembered, so that only the first request with one costs
// a check of its signature; all are forgotten when the issuer's keys are fetched anew.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "oidc/claims.h"
#include "oidc/issuer.h"
#include "service/caller.h"
#include "service/context.h"
#include "service/sign_in_settings.h"
#include "service/sign_ins.h"

namespace service {

// How the text of a program's session begins.
inline constexpr std::string_view kProgramSession = "person.";

class SignIn {
 public:
  static constexpr size_t kKnownMax = 10'000;

  // `issuer` outlives this.
  SignIn(Context& context, oidc::Issuer& issuer, SignInSettings settings);

  // unauthenticated: it is not valid; forbidden: its subject is in no team; unavailable: the
  // issuer's keys were never there. Does not wait.
  base::Result<Caller> verify(std::string_view bearer);
  // Whether fetching the issuer's keys again could make it valid.
  [[nodiscard]] bool lacks_key(std::string_view bearer) const;
  net::Task<void> fetch_keys() { return issuer_.fetch_again(); }

  // Who it is that the issuer has granted a sign-in, by the ID token, made for this gateway's
  // client with that nonce (empty: this way of signing in has none), and by userinfo for what the
  // token lacks. unauthenticated, unavailable, overloaded.
  net::Task<base::Result<Identity>> identity_of_granted(oidc::Granted granted, std::string nonce);
  // unauthenticated: a claim is missing.
  [[nodiscard]] base::Result<Identity> identity_of(const wire::json::Object& claims) const;
  // forbidden: in no team.
  [[nodiscard]] base::Result<Caller> caller_of(std::shared_ptr<const Identity> identity) const;
  // What stands for somebody who has signed in, for session_sec from now on: sealed, and of no use
  // before keep_session() and after the end of its record. A browser's opens nothing as a
  // program's, nor the other way round.
  enum class SessionKind { browser, program };
  struct Session {
    std::string text;
    std::shared_ptr<const Identity> identity;
    SessionKind kind = SessionKind::browser;
  };
  [[nodiscard]] Session make_session(Identity identity, SessionKind kind) const;
  // `remote`: the address it was begun from.
  net::Task<base::Result<void>> keep_session(const Session& session, std::string remote);
  // unauthenticated: none of ours, ended, or too old; forbidden: in no team.
  [[nodiscard]] base::Result<Caller> open_session(std::string_view text, SessionKind kind);
  // Whether it was begun at another gateway and is known here only now.
  net::Task<bool> look_up_session(std::string text, SessionKind kind);
  [[nodiscard]] SignIns& records() { return records_; }
  // Values of ours in hands of others: `object` with "until", its end.
  [[nodiscard]] std::string seal(wire::json::Object object, int64_t seconds,
                                 std::string_view purpose) const;
  // unauthenticated: another's, or past its end.
  [[nodiscard]] base::Result<wire::json::Object> unseal(std::string_view text,
                                                        std::string_view purpose) const;
  // The scopes to ask for, one blank between them.
  [[nodiscard]] std::string scopes() const;

  // The caller as it would be let in now.
  [[nodiscard]] base::Result<Caller> look_again(const Caller& caller) const;

  [[nodiscard]] const SignInSettings& settings() const { return settings_; }
  [[nodiscard]] oidc::Issuer& issuer() { return issuer_; }

 private:
  base::Result<wire::json::Object> check(std::string_view token, const oidc::Expected& expected,
                                         int64_t& expires_ms) const;
  [[nodiscard]] base::Result<wire::json::Object> unseal_session(std::string_view text,
                                                                SessionKind kind) const;
  base::Result<wire::json::Object> check_id_token(std::string_view token, std::string_view nonce);
  net::Task<base::Result<void>> complete(wire::json::Object& claims, base::Secret access_token);
  [[nodiscard]] std::vector<Membership> memberships_of(const Identity& identity) const;

  Context& context_;
  oidc::Issuer& issuer_;
  SignInSettings settings_;
  SignIns records_;
  uint64_t known_version_ = 0;  // of the keys that the known ones were checked with
  std::unordered_map<std::string, std::shared_ptr<const Identity>> known_;  // by the token's hash
};

}  // namespace service
