#include "service/sign_in.h"

#include <algorithm>

#include "service/team_document.h"
#include "service/token_hash.h"

namespace service {
namespace {

using base::ErrorCode;
using base::Result;
using model::Role;
using net::Task;
using wire::json::Object;

constexpr int64_t kMsPerSecond = 1000;

std::string_view name_of(SignIn::SessionKind kind) {
  return kind == SignIn::SessionKind::browser ? "browser" : "program";
}

std::unexpected<base::Error> has_ended() {
  return base::fail(ErrorCode::unauthenticated, "the session has ended: sign in again");
}

std::string_view purpose_of(SignIn::SessionKind kind) {
  return kind == SignIn::SessionKind::browser ? "sign-in.session" : "sign-in.program";
}

std::unexpected<base::Error> not_valid(std::string_view why) {
  return base::fail(ErrorCode::unauthenticated, "the token is not valid: ", why);
}

void add(std::vector<Membership>& memberships, const std::string& team, Role role) {
  const auto found = std::ranges::find(memberships, team, &Membership::team);
  if (found == memberships.end()) {
    memberships.push_back({.team = team, .role = role});
  } else {
    found->role = std::max(found->role, role);
  }
}

}  // namespace

SignIn::SignIn(Context& context, oidc::Issuer& issuer, SignInSettings settings)
    : context_(context), issuer_(issuer), settings_(std::move(settings)), records_(context) {}

bool SignIn::lacks_key(std::string_view bearer) const {
  const auto head = oidc::parse_jwt_head(bearer);
  const oidc::KeySet* keys = issuer_.keys();
  return head && (keys == nullptr || !keys->has_key_for(*head));
}

Result<Object> SignIn::check(std::string_view token, const oidc::Expected& expected,
                             int64_t& expires_ms) const {
  ASSIGN_OR_RETURN(oidc::Jwt jwt, oidc::parse_jwt(token));
  const oidc::KeySet* keys = issuer_.keys();
  if (keys == nullptr) {
    return base::fail(ErrorCode::unavailable,
                      "the issuer of sign-ins does not answer: its keys are not known");
  }
  RETURN_IF_ERROR(keys->verify(jwt));
  ASSIGN_OR_RETURN(expires_ms, oidc::check_claims(jwt.claims, expected, context_.now_ms()));
  return std::move(jwt.claims);
}

Result<Caller> SignIn::verify(std::string_view bearer) {
  if (known_version_ != issuer_.keys_version() || known_.size() >= kKnownMax) {
    known_.clear();
    known_version_ = issuer_.keys_version();
  }
  const bool has_keys = issuer_.keys() != nullptr;
  std::string hash = token_hash(bearer);
  if (const auto found = known_.find(hash); found != known_.end() && has_keys) {
    if (found->second->expires_ms <= context_.now_ms()) {
      return not_valid("it has expired");
    }
    return caller_of(found->second);
  }
  const oidc::Expected expected{.issuer = issuer_.settings().url,
                                .audiences = settings_.audiences,
                                .skew_ms = settings_.skew_sec * kMsPerSecond};
  int64_t expires_ms = 0;
  ASSIGN_OR_RETURN(const Object claims, check(bearer, expected, expires_ms));
  ASSIGN_OR_RETURN(Identity identity, identity_of(claims));
  identity.expires_ms = expires_ms;
  auto kept = std::make_shared<const Identity>(std::move(identity));
  known_.emplace(std::move(hash), kept);
  return caller_of(std::move(kept));
}

Result<Object> SignIn::check_id_token(std::string_view token, std::string_view nonce) {
  const std::string& client = issuer_.settings().client_id;
  const oidc::Expected expected{.issuer = issuer_.settings().url,
                                .audiences = {client},
                                .skew_ms = settings_.skew_sec * kMsPerSecond};
  int64_t expires_ms = 0;
  ASSIGN_OR_RETURN(Object claims, check(token, expected, expires_ms));
  if (claims.contains("azp") && oidc::text_claim(claims, "azp") != client) {
    return not_valid("it was made for another client");
  }
  if (oidc::text_claim(claims, "nonce") != nonce) {
    return not_valid("it belongs to another sign-in");
  }
  return claims;
}

Result<Identity> SignIn::identity_of(const Object& claims) const {
  Identity identity;
  identity.subject = oidc::text_claim(claims, settings_.subject_claim);
  if (identity.subject.empty()) {
    return not_valid(base::cat("it has no claim '", settings_.subject_claim, "'"));
  }
  // Anybody can tell an issuer an address that is somebody else's.
  if (settings_.subject_claim == "email" && !oidc::true_claim(claims, "email_verified")) {
    return not_valid("its issuer has not verified the email address");
  }
  if (!check_subject("subject", identity.subject)) {
    return not_valid(base::cat("its claim '", settings_.subject_claim, "' is no subject's name"));
  }
  for (std::string& group : oidc::list_claim(claims, settings_.groups_claim)) {
    const bool is_known =
        std::ranges::find(settings_.groups, group, &GroupRule::group) != settings_.groups.end();
    if (is_known && std::ranges::find(identity.groups, group) == identity.groups.end()) {
      identity.groups.push_back(std::move(group));
    }
  }
  return identity;
}

std::vector<Membership> SignIn::memberships_of(const Identity& identity) const {
  std::vector<Membership> out;
  for (const GroupRule& rule : settings_.groups) {
    const bool is_in = std::ranges::find(identity.groups, rule.group) != identity.groups.end();
    if (is_in && context_.teams.find(rule.team)) {
      add(out, rule.team, rule.role);
    }
  }
  for (const auto& [name, team] : context_.teams.all()) {
    const auto member =
        std::ranges::lower_bound(team->members, identity.subject, {}, &store::Member::subject);
    if (member != team->members.end() && member->subject == identity.subject) {
      add(out, name, member->role);
    }
  }
  return out;
}

Result<Caller> SignIn::caller_of(std::shared_ptr<const Identity> identity) const {
  auto memberships = memberships_of(*identity);
  if (memberships.empty()) {
    return base::fail(ErrorCode::forbidden, "'", identity->subject,
                      "' is in no team here: an admin adds members, or the operator groups");
  }
  const auto is_platform = [](const Membership& one) {
    return one.team == kPlatformTeam && one.role == Role::admin;
  };
  Caller caller{.team = memberships.front().team,
                .subject = identity->subject,
                .token_id = {},
                .is_admin = memberships.front().role == Role::admin,
                .is_platform_admin = std::ranges::any_of(memberships, is_platform),
                .may_read = true,
                .may_use_sandboxes = true,
                .may_administer = true,
                .expires_ms = identity->expires_ms};
  caller.is_admin |= caller.is_platform_admin;
  caller.may_read_metrics = caller.is_platform_admin;
  if (memberships.size() > 1) {
    caller.memberships = std::move(memberships);
  }
  caller.identity = std::move(identity);
  return caller;
}

std::string SignIn::seal(Object object, int64_t seconds, std::string_view purpose) const {
  object["until"] = context_.now_ms() + seconds * kMsPerSecond;
  return base::base64url(context_.secrets.seal(wire::json::serialize(object), purpose));
}

Result<Object> SignIn::unseal(std::string_view text, std::string_view purpose) const {
  const auto sealed = base::decode_base64url(text);
  const auto plain =
      sealed ? context_.secrets.unseal(*sealed, purpose) : Result<base::Secret>(base::Secret());
  if (!plain || plain->empty()) {
    return base::fail(ErrorCode::unauthenticated, "the session or sign-in is none of ours");
  }
  ASSIGN_OR_RETURN(Object object, wire::json::parse_object(plain->reveal()));  // our own text
  const auto* until = object.if_contains("until");
  if (until == nullptr || !until->is_int64() || until->get_int64() <= context_.now_ms()) {
    return base::fail(ErrorCode::unauthenticated, "the session or sign-in is over: sign in again");
  }
  return object;
}

SignIn::Session SignIn::make_session(Identity identity, SessionKind kind) const {
  identity.sign_in = base::new_id(context_.random, "sgn");
  identity.expires_ms = context_.now_ms() + settings_.session_sec * kMsPerSecond;
  wire::json::Array groups(identity.groups.begin(), identity.groups.end());
  Session session{.text = seal({{"id", identity.sign_in},
                                {"subject", identity.subject},
                                {"groups", std::move(groups)},
                                {"issuer", settings_.issuer}},
                               settings_.session_sec, purpose_of(kind)),
                  .identity = std::make_shared<const Identity>(std::move(identity)),
                  .kind = kind};
  if (kind == SessionKind::program) {
    session.text.insert(0, kProgramSession);
  }
  return session;
}

Task<Result<void>> SignIn::keep_session(const Session& session, std::string remote) {
  const int64_t now = context_.now_ms();
  SignInRow row{.id = session.identity->sign_in,
                .kind = std::string(name_of(session.kind)),
                .subject = session.identity->subject,
                .remote = std::move(remote),
                .created_ms = now,
                .expires_ms = session.identity->expires_ms,
                .last_used_ms = now};
  co_return co_await records_.add(std::move(row));
}

Result<Object> SignIn::unseal_session(std::string_view text, SessionKind kind) const {
  if (kind == SessionKind::program) {
    text.remove_prefix(std::min(kProgramSession.size(), text.size()));
  }
  ASSIGN_OR_RETURN(Object object, unseal(text, purpose_of(kind)));
  if (oidc::text_claim(object, "issuer") != settings_.issuer) {
    return base::fail(ErrorCode::unauthenticated, "the session is of another issuer");
  }
  return object;
}

Result<Caller> SignIn::open_session(std::string_view text, SessionKind kind) {
  ASSIGN_OR_RETURN(const Object object, unseal_session(text, kind));
  Identity identity{.subject = oidc::text_claim(object, "subject"),
                    .groups = oidc::list_claim(object, "groups"),
                    .expires_ms = object.at("until").get_int64(),
                    .sign_in = oidc::text_claim(object, "id")};
  if (records_.find(identity.sign_in) == nullptr) {
    return has_ended();
  }
  records_.note_use(identity.sign_in);
  return caller_of(std::make_shared<const Identity>(std::move(identity)));
}

Task<bool> SignIn::look_up_session(std::string text, SessionKind kind) {
  const auto object = unseal_session(text, kind);
  if (!object || records_.find(oidc::text_claim(*object, "id")) != nullptr) {
    co_return false;
  }
  co_return co_await records_.look_up(oidc::text_claim(*object, "id"));
}

net::Task<Result<void>> SignIn::complete(Object& claims, base::Secret access_token) {
  const bool is_whole = claims.contains(settings_.subject_claim) &&
                        (settings_.groups.empty() || claims.contains(settings_.groups_claim)) &&
                        (settings_.subject_claim != "email" || claims.contains("email_verified"));
  CO_ASSIGN_OR_RETURN(const oidc::Issuer::Endpoints* endpoints, issuer_.endpoints());
  if (is_whole || endpoints->userinfo.empty() || access_token.empty()) {
    co_return Result<void>{};
  }
  CO_ASSIGN_OR_RETURN(const Object more, co_await issuer_.user_info(std::move(access_token)));
  // Of somebody else it says nothing (OpenID Connect Core 5.3.2).
  if (oidc::text_claim(claims, "sub").empty() ||
      oidc::text_claim(more, "sub") != oidc::text_claim(claims, "sub")) {
    co_return base::fail(ErrorCode::unauthenticated, "the issuer tells of another person");
  }
  for (const auto& field : more) {
    claims.insert(field);  // what the token says stands
  }
  co_return Result<void>{};
}

net::Task<Result<Identity>> SignIn::identity_of_granted(oidc::Granted granted, std::string nonce) {
  if (lacks_key(granted.id_token)) {
    co_await fetch_keys();
  }
  CO_ASSIGN_OR_RETURN(Object claims, check_id_token(granted.id_token, nonce));
  CO_RETURN_IF_ERROR(co_await complete(claims, std::move(granted.access_token)));
  co_return identity_of(claims);
}

std::string SignIn::scopes() const {
  std::string out;
  for (const std::string& scope : words_of(settings_.scopes)) {
    out += base::cat(out.empty() ? "" : " ", scope);
  }
  return out;
}

Result<Caller> SignIn::look_again(const Caller& caller) const {
  if (caller.expires_ms <= context_.now_ms()) {
    return not_valid("it has expired");
  }
  const std::string& sign_in = caller.identity->sign_in;
  if (!sign_in.empty() && records_.find(sign_in) == nullptr) {
    return has_ended();
  }
  ASSIGN_OR_RETURN(Caller now, caller_of(caller.identity));
  if (!now.is_in(caller.team)) {
    return not_valid("its subject has left the team");
  }
  now.enter(caller.team);
  now.remote = caller.remote;
  return now;
}

}  // namespace service
