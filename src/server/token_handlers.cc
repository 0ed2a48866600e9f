#include <algorithm>

#include "server/answers_json.h"
#include "server/handlers.h"

namespace server {
namespace {

using wire::json::Array;
using wire::json::Object;

Array scopes_json(const std::vector<std::string>& scopes) {
  return Array(scopes.begin(), scopes.end());
}

Object token_json(const service::Token& token) {
  return Object{{"id", token.id},
                {"name", token.name},
                {"team", token.team},
                {"subject", token.subject},
                {"member", token.of_member},
                {"every_team", token.every_team},
                {"role", model::to_string(token.role)},
                {"scopes", scopes_json(token.scopes)},
                {"created_at", time_json(token.created_ms)},
                {"expires_at", time_json(token.expires_ms)},
                {"last_used_at", time_json(token.last_used_ms)}};
}

void note_token(Exchange& exchange, const service::Token& token) {
  exchange.note("token", token.id);
  exchange.note("name", service::audit_text(token.name));
  exchange.note("team", token.team);
  exchange.note("subject", service::audit_text(token.subject));
  exchange.note("role", model::to_string(token.role));
  exchange.note("scopes", wire::json::Value(service::audit_list(token.scopes)));
}

// "created_ms.id" of the last token of a page.
Result<service::Token> parse_token_cursor(std::string_view cursor) {
  const size_t dot = cursor.find('.');
  const auto created = base::parse_number<int64_t>(cursor.substr(0, dot));
  if (dot == std::string_view::npos || !created) {
    return base::fail_field("cursor", "'cursor' is not one that a list answered with");
  }
  return service::Token{.id = std::string(cursor.substr(dot + 1)), .created_ms = *created};
}

Array own_scopes_json(const service::Caller& caller) {
  Array scopes;
  const auto add = [&](bool has, std::string_view scope) {
    if (has) {
      scopes.emplace_back(scope);
    }
  };
  add(caller.may_read, service::token_scope::kRead);
  add(caller.may_use_sandboxes, service::token_scope::kMember);
  add(caller.may_administer, service::token_scope::kAdmin);
  add(caller.may_read_metrics, service::token_scope::kMetrics);
  return scopes;
}

// How somebody signed in; null: a token of ours was shown.
wire::json::Value sign_in_json(const service::Caller& caller) {
  if (!caller.identity) {
    return nullptr;
  }
  const service::Identity& identity = *caller.identity;
  return Object{{"by", identity.sign_in.empty() ? "token" : "session"},
                {"groups", Array(identity.groups.begin(), identity.groups.end())},
                {"expires_at", time_json(identity.expires_ms)}};
}

}  // namespace

Task<Result<void>> list_tokens(Application& application, Exchange& exchange) {
  CO_RETURN_IF_ERROR(exchange.check_parameters({"team", "scope", "limit", "cursor"}));
  CO_ASSIGN_OR_RETURN(const bool all, scope_parameter(exchange));
  CO_ASSIGN_OR_RETURN(const auto team, exchange.request().parameter("team"));
  CO_ASSIGN_OR_RETURN(const int64_t limit,
                      exchange.integer_parameter("limit", 1, kListMax, kListDefault));
  CO_ASSIGN_OR_RETURN(const auto cursor, exchange.request().parameter("cursor"));
  if (team && (!exchange.caller().is_in(*team) || !application.teams.find(*team))) {
    co_return base::fail(ErrorCode::not_found, "team '", *team, "' does not exist");
  }
  auto tokens = application.tokens.list(exchange.caller());
  const std::string& own = exchange.caller().team;
  std::erase_if(tokens, [&](const service::Token* token) {
    return team ? token->team != *team
                : exchange.caller().is_platform_admin && !all && token->team != own;
  });
  auto first = tokens.cbegin();
  if (cursor) {
    CO_ASSIGN_OR_RETURN(const auto last, parse_token_cursor(*cursor));
    first = std::ranges::upper_bound(tokens, &last,
                                     [](const service::Token* a, const service::Token* b) {
                                       return service::is_listed_before(*a, *b);
                                     });
  }
  Array items;
  std::string next_cursor;
  for (auto token = first; token != tokens.cend(); ++token) {
    if (static_cast<int64_t>(items.size()) == limit) {
      const service::Token& last = **std::prev(token);
      next_cursor = base::cat(last.created_ms, ".", last.id);
      break;
    }
    items.push_back(token_json(**token));
  }
  co_return co_await exchange.answer_json(200, list_body(std::move(items), next_cursor));
}

Task<Result<void>> create_token(Application& application, Exchange& exchange) {
  CO_RETURN_IF_ERROR(exchange.check_parameters({}));
  CO_ASSIGN_OR_RETURN(auto body, co_await exchange.read_body(kSmallBodyBytesMax));
  CO_ASSIGN_OR_RETURN(const auto issued,
                      co_await application.tokens.create(exchange.caller(), std::move(body)));
  exchange.enter_team(issued.token.team);
  note_token(exchange, issued.token);
  Object answer = token_json(issued.token);
  answer["secret"] = issued.secret;
  co_return co_await exchange.answer_json(
      201, wire::json::serialize(answer),
      {{"location", base::cat("/tokens/", issued.token.id)}, {"cache-control", "no-store"}});
}

Task<Result<void>> get_token(Application& application, Exchange& exchange) {
  CO_RETURN_IF_ERROR(exchange.check_parameters({}));
  CO_ASSIGN_OR_RETURN(const auto* token,
                      application.tokens.get(exchange.caller(), exchange.segment(0)));
  co_return co_await exchange.answer_json(200, wire::json::serialize(token_json(*token)));
}

Task<Result<void>> delete_token(Application& application, Exchange& exchange) {
  CO_RETURN_IF_ERROR(exchange.check_parameters({}));
  exchange.note("token", service::audit_text(exchange.segment(0)));
  CO_ASSIGN_OR_RETURN(const auto token,
                      co_await application.tokens.revoke(exchange.caller(), exchange.segment(0)));
  exchange.enter_team(token.team);
  note_token(exchange, token);
  co_return co_await exchange.answer_empty(204);
}

Task<Result<void>> me(Application& application, Exchange& exchange) {
  CO_RETURN_IF_ERROR(exchange.check_parameters({}));
  const service::Caller& caller = exchange.caller();
  const service::Token* token = application.access.find(caller.token_id);
  Array teams;
  for (const service::Membership& membership : caller.memberships) {
    teams.push_back(Object{{"team", membership.team}, {"role", model::to_string(membership.role)}});
  }
  const std::string_view role = caller.is_admin ? "admin" : "member";
  if (teams.empty()) {
    teams.push_back(Object{{"team", caller.team}, {"role", role}});
  }
  co_return co_await exchange.answer_json(
      200, wire::json::serialize(
               Object{{"subject", caller.subject},
                      {"team", caller.team},
                      {"role", role},
                      {"scopes", own_scopes_json(caller)},
                      {"teams", std::move(teams)},
                      {"platform_admin", caller.is_platform_admin},
                      {"sign_in", sign_in_json(caller)},
                      {"token", token == nullptr ? wire::json::Value(nullptr)
                                                 : wire::json::Value(token_json(*token))}}));
}

}  // namespace server
