#include "service/tokens.h"

#include <algorithm>
#include <array>

#include "service/team_document.h"

namespace service {
namespace {

using base::ErrorCode;
using base::fail_field;
using base::Result;
using net::Task;
using wire::json::Object;
using wire::json::Reader;

constexpr size_t kNameBytesMax = 100;
constexpr size_t kTokensOfTeamMax = 1000;  // all are in memory
constexpr int64_t kMsPerSecond = 1000;
constexpr int64_t kLifetimeSecMax = int64_t{10} * 365 * 24 * 3600;
constexpr std::array kScopes{token_scope::kRead, token_scope::kMember, token_scope::kAdmin,
                             token_scope::kMetrics};

bool has_scope(const Token& token, std::string_view scope) {
  return std::ranges::find(token.scopes, scope) != token.scopes.end();
}

Result<std::vector<std::string>> read_scopes(Reader& reader) {
  ASSIGN_OR_RETURN(auto scopes, reader.required<std::vector<std::string>>("scopes"));
  const auto is_known = [](const std::string& scope) {
    return std::ranges::find(kScopes, scope) != kScopes.end();
  };
  if (scopes.empty() || !std::ranges::all_of(scopes, is_known)) {
    return fail_field("scopes", "'scopes' must name at least one of read, member, admin, metrics");
  }
  std::ranges::sort(scopes);
  if (std::ranges::adjacent_find(scopes) != scopes.end()) {
    return fail_field("scopes", "'scopes' names one twice");
  }
  return scopes;
}

Result<int64_t> read_expiry(Reader& reader, int64_t now_ms) {
  ASSIGN_OR_RETURN(const auto seconds, reader.optional<int64_t>("expires_in_sec"));
  ASSIGN_OR_RETURN(const auto at, reader.optional<std::string>("expires_at"));
  if (seconds && at) {
    return fail_field("expires_at", "give either 'expires_in_sec' or 'expires_at'");
  }
  if (seconds) {
    if (*seconds < 1 || *seconds > kLifetimeSecMax) {
      return fail_field("expires_in_sec", "'expires_in_sec' must be from 1 to ", kLifetimeSecMax);
    }
    return now_ms + *seconds * kMsPerSecond;
  }
  if (!at) {
    return 0;
  }
  const auto time = base::parse_rfc3339(*at);
  if (!time || base::to_ms(*time) <= now_ms ||
      base::to_ms(*time) > now_ms + kLifetimeSecMax * kMsPerSecond) {
    return fail_field("expires_at",
                      "'expires_at' must be a time of RFC 3339 in the next ten years");
  }
  return base::to_ms(*time);
}

}  // namespace

bool is_listed_before(const Token& a, const Token& b) {
  return a.created_ms != b.created_ms ? a.created_ms > b.created_ms : a.id > b.id;
}

// What nobody may have, whoever asks.
Result<Token> Tokens::parse(const Caller& caller, const Object& body) const {
  Reader reader(body);
  Token token{.id = base::new_id(context_.random, "tok"), .created_ms = context_.now_ms()};
  ASSIGN_OR_RETURN(token.name, reader.required<std::string>("name"));
  if (token.name.size() > kNameBytesMax) {
    return fail_field("name", "'name' must have at most ", kNameBytesMax, " bytes");
  }
  RETURN_IF_ERROR(check_subject("name", token.name));
  ASSIGN_OR_RETURN(token.scopes, read_scopes(reader));
  ASSIGN_OR_RETURN(const auto team, reader.optional<std::string>("team"));
  token.team = team.value_or(caller.team);
  ASSIGN_OR_RETURN(const auto subject, reader.optional<std::string>("subject"));
  token.of_member = subject.has_value();
  token.subject = subject.value_or(token.name);
  ASSIGN_OR_RETURN(const auto role, reader.optional<std::string>("role"));
  ASSIGN_OR_RETURN(token.role, parse_role_field("role", role.value_or("member")));
  ASSIGN_OR_RETURN(const auto every_team, reader.optional<bool>("every_team"));
  token.every_team = every_team.value_or(false);
  ASSIGN_OR_RETURN(token.expires_ms, read_expiry(reader, context_.now_ms()));
  RETURN_IF_ERROR(reader.finish());
  if (token.every_team && !token.of_member) {
    return fail_field("every_team", "'every_team' is for the token of a member: give 'subject'");
  }
  if (has_scope(token, token_scope::kAdmin) && token.role != model::Role::admin) {
    return fail_field("scopes", "the scope admin goes with the role admin");
  }
  return token;
}

// Against who is in the team, and what the caller has itself.
Result<void> Tokens::check_grant(const Caller& caller, const Token& token) const {
  const TeamPtr team = caller.is_in(token.team) ? context_.teams.find(token.team) : nullptr;
  if (!team) {
    return base::fail(ErrorCode::not_found, "team '", token.team, "' does not exist");
  }
  Caller there = caller;
  there.enter(token.team);
  if (!there.is_admin) {
    return base::fail(ErrorCode::forbidden, "tokens of a team are made by its admins");
  }
  if (has_scope(token, token_scope::kMetrics) && !caller.is_platform_admin) {
    return base::fail(ErrorCode::forbidden, "the scope metrics is given by admins of the platform");
  }
  // It speaks for its subject in teams that the caller has no say in.
  if (token.every_team && !caller.is_platform_admin) {
    return base::fail(ErrorCode::forbidden, "'every_team' is given by admins of the platform");
  }
  const auto member = std::ranges::find(team->members, token.subject, &store::Member::subject);
  if (token.of_member && member == team->members.end()) {
    return fail_field("subject", "'", token.subject, "' is not a member of team '", token.team,
                      "'");
  }
  if (token.of_member && token.role > member->role) {
    return fail_field("role", "'", token.subject, "' is no admin of team '", token.team, "'");
  }
  if (!token.of_member && member != team->members.end()) {
    return fail_field("name", "a member of the team has that name: give it as 'subject'");
  }
  const auto all = access_.all();
  if (std::ranges::count(all, token.team, &Token::team) >= static_cast<int64_t>(kTokensOfTeamMax)) {
    return base::fail(ErrorCode::conflict, "team '", token.team, "' has ", kTokensOfTeamMax,
                      " tokens; revoke some");
  }
  return {};
}

Task<Result<Tokens::Issued>> Tokens::create(Caller caller, std::string body) {
  CO_ASSIGN_OR_RETURN(const auto object, wire::json::parse_object(body));
  CO_ASSIGN_OR_RETURN(Token token, parse(caller, object));
  CO_RETURN_IF_ERROR(check_grant(caller, token));
  std::string secret = base::new_secret(context_.random);
  token.hash = token_hash(secret);
  auto write = [this, &token] { return context_.store.insert_token(token); };
  CO_RETURN_IF_ERROR(co_await context_.pool.run(std::move(write)));
  access_.add(token);
  co_return Issued{.token = std::move(token), .secret = std::move(secret)};
}

bool Tokens::may_see(const Caller& caller, const Token& token) const {
  if (token.id == caller.token_id) {
    return true;
  }
  if (!caller.is_in(token.team)) {
    return false;
  }
  Caller there = caller;
  there.enter(token.team);
  const Token* shown = access_.find(caller.token_id);
  const bool is_same_member =
      token.of_member && token.subject == caller.subject && (shown == nullptr || shown->of_member);
  return there.is_admin || (is_same_member && caller.may_read);
}

std::vector<const Token*> Tokens::list(const Caller& caller) const {
  auto tokens = access_.all();
  std::erase_if(tokens, [&](const Token* token) { return !may_see(caller, *token); });
  std::ranges::sort(tokens,
                    [](const Token* a, const Token* b) { return is_listed_before(*a, *b); });
  return tokens;
}

Result<const Token*> Tokens::get(const Caller& caller, const std::string& id) const {
  const Token* token = access_.find(id);
  if (token == nullptr || !may_see(caller, *token)) {
    return base::fail(ErrorCode::not_found, "token '", id, "' does not exist");
  }
  return token;
}

Task<Result<Token>> Tokens::revoke(Caller caller, std::string id) {
  CO_ASSIGN_OR_RETURN(const Token* found, get(caller, id));
  Token token = *found;
  Caller there = caller;
  there.enter(token.team);
  if (!there.is_admin && token.id != caller.token_id && !caller.may_use_sandboxes) {
    co_return base::fail(ErrorCode::forbidden, "a token that only reads revokes none but itself");
  }
  auto write = [this, &token] { return context_.store.delete_token(token.team, token.id); };
  const auto written = co_await context_.pool.run(std::move(write));
  if (!written && written.error().code != ErrorCode::not_found) {
    co_return std::unexpected(written.error());
  }
  access_.drop(token.id);
  co_return token;
}

}  // namespace service
