#include "service/access.h"

#include <algorithm>

#include "service/sandbox_identity.h"
#include "service/sign_in.h"

namespace service {
namespace {

using base::ErrorCode;
using base::Result;
using model::Role;

// Of a token's last use; more would be a write for each request.
constexpr int64_t kUseWrittenEveryMs = 60'000;
constexpr int64_t kMsPerSecond = 1000;
// Of tokens that are not known here: everybody can send some, and each asks the store.
constexpr int kLookUpsPerSecond = 50;

std::unexpected<base::Error> not_valid() {
  return base::fail(ErrorCode::unauthenticated, "the token is not valid");
}

// What stands behind "Bearer "; empty: it is no such header.
std::string_view bearer_of(std::string_view authorization) {
  constexpr std::string_view kScheme = "Bearer ";
  return authorization.size() > kScheme.size() &&
                 base::equals_ignoring_case(authorization.substr(0, kScheme.size()), kScheme)
             ? base::trim(authorization.substr(kScheme.size()))
             : std::string_view();
}

std::optional<Role> role_in(const Team& team, std::string_view subject) {
  const auto found = std::ranges::find(team.members, subject, &store::Member::subject);
  return found == team.members.end() ? std::nullopt : std::optional(found->role);
}

void add_scope(Caller& caller, std::string_view scope) {
  const bool all = scope == token_scope::kAll;
  const bool admin = all || scope == token_scope::kAdmin;
  const bool member = admin || scope == token_scope::kMember;
  caller.may_administer |= admin;
  caller.may_use_sandboxes |= member;
  caller.may_read |= member || scope == token_scope::kRead;
  caller.may_read_metrics |= all || scope == token_scope::kMetrics;
}

}  // namespace

net::Task<Result<void>> Access::load() {
  auto read = [this] { return context_.store.list_tokens(); };
  CO_ASSIGN_OR_RETURN(auto tokens, co_await context_.pool.run(std::move(read)));
  std::vector<std::string> gone;
  for (const auto& [id, known] : by_id_) {
    if (std::ranges::find(tokens, id, &store::Token::id) == tokens.end()) {
      gone.push_back(id);
    }
  }
  for (const std::string& id : gone) {
    drop(id);
  }
  for (store::Token& token : tokens) {
    if (const auto known = by_id_.find(token.id); known != by_id_.end()) {
      token.last_used_ms = std::max(token.last_used_ms, known->second->last_used_ms);
    }
    add(std::move(token));
  }
  if (sign_in_ != nullptr) {
    CO_RETURN_IF_ERROR(co_await sign_in_->records().load());
  }
  co_return Result<void>{};
}

net::Task<bool> Access::look_up(std::string authorization) {
  const std::string_view bearer = bearer_of(authorization);
  if (sign_in_ != nullptr && bearer.starts_with(kProgramSession)) {
    co_return co_await sign_in_->look_up_session(std::string(bearer), SignIn::SessionKind::program);
  }
  if (context_.replicas.alone() || bearer.empty() || oidc::looks_like_jwt(bearer) ||
      bearer.starts_with(kSandboxToken)) {
    co_return false;
  }
  const int64_t second = context_.now_ms() / kMsPerSecond;
  if (std::exchange(look_up_second_, second) != second) {
    look_ups_ = 0;
  }
  if (++look_ups_ > kLookUpsPerSecond) {
    co_return false;
  }
  auto find = [this, hash = token_hash(bearer)] { return context_.store.find_token_by_hash(hash); };
  auto found = co_await context_.pool.run(std::move(find));
  if (!found || !*found) {
    co_return false;
  }
  add(std::move(**found));
  co_return true;
}

void Access::add(store::Token token) {
  auto kept = std::make_shared<store::Token>(std::move(token));
  by_hash_[kept->hash] = kept;
  by_id_[kept->id] = std::move(kept);
}

void Access::drop(const std::string& id) {
  if (const auto found = by_id_.find(id); found != by_id_.end()) {
    by_hash_.erase(found->second->hash);
    by_id_.erase(found);
  }
}

const store::Token* Access::find(const std::string& id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : found->second.get();
}

std::vector<const store::Token*> Access::all() const {
  std::vector<const store::Token*> out;
  out.reserve(by_id_.size());
  for (const auto& [id, token] : by_id_) {
    out.push_back(token.get());
  }
  return out;
}

Result<Caller> Access::caller_of(const store::Token& token) const {
  if (token.expires_ms != 0 && token.expires_ms <= context_.now_ms()) {
    return not_valid();
  }
  Caller caller{.team = token.team,
                .subject = token.subject,
                .token_id = token.id,
                .memberships = {},
                .expires_ms = token.expires_ms,
                .remote = {}};
  for (const std::string& scope : token.scopes) {
    add_scope(caller, scope);
  }
  Role role = token.role;
  if (token.of_member) {
    const TeamPtr team = context_.teams.find(token.team);
    const auto present = team ? role_in(*team, token.subject) : std::nullopt;
    if (!present) {
      return not_valid();
    }
    role = std::min(role, *present);
  }
  caller.is_admin = role == Role::admin && caller.may_administer;
  caller.is_platform_admin = caller.is_admin && token.team == kPlatformTeam;
  if (token.every_team) {
    for (const auto& [name, team] : context_.teams.all()) {
      if (const auto present = role_in(*team, token.subject)) {
        caller.memberships.push_back({.team = name, .role = std::min(token.role, *present)});
      }
    }
  }
  return caller;
}

void Access::note_use(store::Token& token) {
  const int64_t now = context_.now_ms();
  if (now - token.last_used_ms < kUseWrittenEveryMs) {
    return;
  }
  token.last_used_ms = now;
  context_.journal.append(
      {.write = [id = token.id, now](store::Store& rows) { return rows.touch_token(id, now); },
       .then = {}});
}

Result<Caller> Access::authenticate(const std::string* authorization) {
  if (authorization == nullptr) {
    return base::fail(ErrorCode::unauthenticated, "an Authorization header with a token is needed");
  }
  const std::string_view bearer = bearer_of(*authorization);
  if (bearer.empty()) {
    return base::fail(ErrorCode::unauthenticated, "the Authorization header is not a bearer token");
  }
  if (sign_in_ != nullptr && oidc::looks_like_jwt(bearer)) {
    return sign_in_->verify(bearer);
  }
  if (sign_in_ != nullptr && bearer.starts_with(kProgramSession)) {
    return sign_in_->open_session(bearer, SignIn::SessionKind::program);
  }
  if (sandboxes_ != nullptr && bearer.starts_with(kSandboxToken)) {
    return sandboxes_->open(bearer);
  }
  const auto found = by_hash_.find(token_hash(bearer));
  if (found == by_hash_.end()) {
    return not_valid();
  }
  ASSIGN_OR_RETURN(Caller caller, caller_of(*found->second));
  note_use(*found->second);
  return caller;
}

std::string Access::sandbox_in(const std::string& authorization) const {
  return sandboxes_ == nullptr ? "" : sandboxes_->id_in(bearer_of(authorization));
}

bool Access::lacks_key(const std::string* authorization) const {
  if (sign_in_ == nullptr || authorization == nullptr) {
    return false;
  }
  const std::string_view bearer = bearer_of(*authorization);
  return oidc::looks_like_jwt(bearer) && sign_in_->lacks_key(bearer);
}

net::Task<void> Access::fetch_keys() {
  if (sign_in_ != nullptr) {
    co_await sign_in_->fetch_keys();
  }
}

Result<Caller> Access::look_again(const Caller& caller) const {
  if (caller.identity) {
    return sign_in_ == nullptr ? not_valid() : sign_in_->look_again(caller);
  }
  if (caller.sandbox) {
    return sandboxes_ == nullptr ? not_valid() : sandboxes_->look_again(caller);
  }
  const store::Token* token = find(caller.token_id);
  if (token == nullptr) {
    return not_valid();
  }
  ASSIGN_OR_RETURN(Caller now, caller_of(*token));
  if (!now.is_in(caller.team)) {
    return not_valid();
  }
  now.enter(caller.team);
  now.remote = caller.remote;
  return now;
}

}  // namespace service
