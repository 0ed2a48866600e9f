#include "service/sandbox_identity.h"

#include <algorithm>

#include "oidc/claims.h"

namespace service {
namespace {

using base::ErrorCode;
using base::Result;
using wire::json::Array;
using wire::json::Object;

constexpr int64_t kMsPerSecond = 1000;
constexpr std::string_view kPurpose = "sandbox.access";

std::unexpected<base::Error> not_valid() {
  return base::fail(ErrorCode::unauthenticated, "the sandbox's token is not valid");
}

bool contains(const std::vector<std::string>& list, std::string_view text) {
  return std::ranges::find(list, text) != list.end();
}

}  // namespace

IssuedToken SandboxIdentity::identity_token(const SandboxRow& row,
                                            std::string_view audience) const {
  const int64_t now_sec = context_.now_ms() / kMsPerSecond;
  const int64_t end_sec = now_sec + settings_.lifetime_sec;
  Object claims{{"iss", settings_.issuer},
                {"sub", base::cat(kSandboxSubject, row.id)},
                {"aud", audience},
                {"iat", now_sec},
                {"nbf", now_sec},
                {"exp", end_sec},
                {"jti", base::new_id(context_.random, "idt")},
                {"sandbox", row.id},
                {"team", row.team},
                {"owner", row.owner},
                {"image", row.image}};
  if (!row.image_digest.empty()) {
    claims["image_digest"] = row.image_digest;
  }
  Object labels;
  for (const auto& [name, value] : row.labels) {
    labels[name] = value;
  }
  // All of them or none: who decides by a label must not meet half a list.
  if (wire::json::serialize(labels).size() <= kLabelBytesMax) {
    claims["labels"] = std::move(labels);
  }
  return {.text = keys_.signer().sign(claims), .expires_ms = end_sec * kMsPerSecond};
}

Result<void> SandboxIdentity::check_audience(std::string_view audience) const {
  if (audience.empty() || audience == settings_.issuer ||
      std::ranges::find(settings_.audiences, audience) != settings_.audiences.end()) {
    return {};
  }
  return base::fail_field("audience", "'audience' is none that the operator has configured");
}

Result<LivePtr> SandboxIdentity::find(const std::string& id) const {
  LivePtr live = context_.live.find(id);
  if (!live ||
      (live->row.state != SandboxState::starting && live->row.state != SandboxState::ready)) {
    return not_valid();
  }
  return live;
}

Result<LivePtr> SandboxIdentity::sandbox_of(std::string_view identity_token) const {
  ASSIGN_OR_RETURN(const oidc::Jwt jwt, oidc::parse_jwt(identity_token));
  RETURN_IF_ERROR(keys_.verifier().verify(jwt));
  const oidc::Expected expected{.issuer = settings_.issuer, .audiences = {settings_.issuer}};
  RETURN_IF_ERROR(oidc::check_claims(jwt.claims, expected, context_.now_ms()));
  return find(oidc::text_claim(jwt.claims, "sandbox"));
}

std::vector<std::string> SandboxIdentity::scopes_of(const SandboxRow& row,
                                                    const std::vector<std::string>& wanted) const {
  const TeamPtr team = context_.teams.find(row.team);
  std::vector<std::string> out;
  if (!team || team->identity_sandboxes == "none") {
    return out;
  }
  for (const std::string& scope : team->identity_scopes) {
    // With member goes read.
    const bool is_covered = scope == token_scope::kMember && contains(wanted, token_scope::kRead);
    if (wanted.empty() || contains(wanted, scope)) {
      out.push_back(scope);
    } else if (is_covered && !contains(team->identity_scopes, token_scope::kRead)) {
      out.emplace_back(token_scope::kRead);
    }
  }
  return out;
}

Result<IssuedToken> SandboxIdentity::access_token(const SandboxRow& row,
                                                  const std::vector<std::string>& scopes) const {
  const auto given = scopes_of(row, scopes);
  if (given.empty()) {
    return base::fail(ErrorCode::forbidden, "team '", row.team,
                      "' gives its sandboxes no such access to the gateway");
  }
  const int64_t end_ms = context_.now_ms() + settings_.lifetime_sec * kMsPerSecond;
  const Object object{
      {"sandbox", row.id}, {"scopes", Array(scopes.begin(), scopes.end())}, {"until", end_ms}};
  return IssuedToken{
      .text = base::cat(kSandboxToken, base::base64url(context_.secrets.seal(
                                           wire::json::serialize(object), kPurpose))),
      .expires_ms = end_ms};
}

Result<Object> SandboxIdentity::unseal(std::string_view access_token) const {
  if (!access_token.starts_with(kSandboxToken)) {
    return not_valid();
  }
  const auto sealed = base::decode_base64url(access_token.substr(kSandboxToken.size()));
  if (!sealed) {
    return not_valid();
  }
  const auto plain = context_.secrets.unseal(*sealed, kPurpose);
  if (!plain) {
    return not_valid();
  }
  return wire::json::parse_object(plain->reveal());  // our own text
}

std::string SandboxIdentity::id_in(std::string_view access_token) const {
  const auto object = unseal(access_token);
  return object ? oidc::text_claim(*object, "sandbox") : "";
}

Result<Caller> SandboxIdentity::caller_of(const std::string& id,
                                          const std::vector<std::string>& scopes,
                                          int64_t expires_ms) const {
  ASSIGN_OR_RETURN(const LivePtr live, find(id));
  if (expires_ms <= context_.now_ms()) {
    return not_valid();
  }
  const TeamPtr team = context_.teams.find(live->row.team);
  const auto given = scopes_of(live->row, scopes);
  if (!team || given.empty()) {
    return base::fail(ErrorCode::forbidden,
                      "the team gives its sandboxes no access to the gateway");
  }
  const bool is_member = contains(given, token_scope::kMember);
  return Caller{.team = live->row.team,
                .subject = base::cat(kSandboxSubject, id),
                .token_id = base::cat(kSandboxSubject, id),
                .may_read = is_member || contains(given, token_scope::kRead),
                .may_use_sandboxes = is_member,
                .expires_ms = expires_ms,
                .sandbox = std::make_shared<const ActingSandbox>(ActingSandbox{
                    .id = id, .scopes = scopes, .only_itself = team->identity_sandboxes == "own"})};
}

Result<Caller> SandboxIdentity::open(std::string_view access_token) const {
  ASSIGN_OR_RETURN(const Object object, unseal(access_token));
  return caller_of(oidc::text_claim(object, "sandbox"), oidc::list_claim(object, "scopes"),
                   object.at("until").to_number<int64_t>());
}

Result<Caller> SandboxIdentity::look_again(const Caller& caller) const {
  ASSIGN_OR_RETURN(Caller now,
                   caller_of(caller.sandbox->id, caller.sandbox->scopes, caller.expires_ms));
  now.remote = caller.remote;
  return now;
}

}  // namespace service
