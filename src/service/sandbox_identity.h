// SandboxIdentity: who a sandbox is to others. To the outside by signed tokens that name it
// (identity tokens: OpenID Connect, this gateway is the issuer); to this gateway by tokens that are
// sealed and open it for as long as the sandbox lives. What the latter may do, its team says, at
// each request anew. Owned by main; loop thread only. docs/identity.md.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "service/caller.h"
#include "service/context.h"
#include "service/identity_keys.h"

namespace service {

// How the text of a sandbox's token of this gateway begins.
inline constexpr std::string_view kSandboxToken = "sandbox.";
// Before a sandbox's id: its subject in tokens, lists and the audit log.
inline constexpr std::string_view kSandboxSubject = "sandbox:";

struct IssuedToken {
  std::string text;
  int64_t expires_ms = 0;
};

class SandboxIdentity {
 public:
  // Of a token with all labels; a head of a request has 32 KiB.
  static constexpr size_t kLabelBytesMax = 4'096;

  struct Settings {
    std::string issuer;  // a URL
    int64_t lifetime_sec = 3'600;
    std::vector<std::string> audiences;  // besides the issuer, that there are identity tokens for
  };
  SandboxIdentity(Context& context, IdentityKeys& keys, Settings settings)
      : context_(context), keys_(keys), settings_(std::move(settings)) {}

  // A signed token that says who it is to that audience.
  [[nodiscard]] IssuedToken identity_token(const SandboxRow& row, std::string_view audience) const;
  // The sandbox of an identity token that was made for this gateway. unauthenticated: not one of
  // ours, over, or the sandbox does not live.
  [[nodiscard]] base::Result<LivePtr> sandbox_of(std::string_view identity_token) const;

  // A token of this gateway with at most these scopes (empty: all that the team gives). forbidden:
  // the team gives its sandboxes none of them.
  [[nodiscard]] base::Result<IssuedToken> access_token(
      const SandboxRow& row, const std::vector<std::string>& scopes) const;
  // The scopes of such a token.
  [[nodiscard]] std::vector<std::string> scopes_of(const SandboxRow& row,
                                                   const std::vector<std::string>& wanted) const;
  // unauthenticated: not one of ours, over, or the sandbox does not live; forbidden: the team gives
  // its sandboxes nothing any more.
  [[nodiscard]] base::Result<Caller> open(std::string_view access_token) const;
  // The same caller as it would be let in now.
  [[nodiscard]] base::Result<Caller> look_again(const Caller& caller) const;
  // Whose it says that it is; empty: it is none of ours.
  [[nodiscard]] std::string id_in(std::string_view access_token) const;

  // "" stands for this gateway. invalid_field: one that the operator has not configured.
  [[nodiscard]] base::Result<void> check_audience(std::string_view audience) const;
  [[nodiscard]] int64_t now_ms() const { return context_.now_ms(); }
  [[nodiscard]] const Settings& settings() const { return settings_; }
  [[nodiscard]] IdentityKeys& keys() { return keys_; }

 private:
  [[nodiscard]] base::Result<wire::json::Object> unseal(std::string_view access_token) const;
  [[nodiscard]] base::Result<LivePtr> find(const std::string& id) const;
  [[nodiscard]] base::Result<Caller> caller_of(const std::string& id,
                                               const std::vector<std::string>& scopes,
                                               int64_t expires_ms) const;

  Context& context_;
  IdentityKeys& keys_;
  Settings settings_;
};

}  // namespace service
