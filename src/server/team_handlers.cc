#include <algorithm>

#include "server/answers_json.h"
#include "server/handlers.h"
#include "service/browser_sign_in.h"
#include "service/team_document.h"

namespace server {
namespace {

using wire::json::Array;
using wire::json::Object;

// What a team is not in for the caller, is not there for it. A caller in several teams has entered
// this one by now.
Result<void> check_team(const Application& application, const Exchange& exchange) {
  const std::string& name = exchange.segment(0);
  if (name != exchange.caller().team || !application.teams.find(name)) {
    return base::fail(ErrorCode::not_found, "team '", name, "' does not exist");
  }
  return {};
}

Array changes_json(const std::vector<service::TeamChange>& changes) {
  Array out;
  for (const service::TeamChange& change : changes) {
    Array fields;
    for (const service::FieldChange& field : change.fields) {
      fields.push_back(Object{{"field", field.field}, {"from", field.from}, {"to", field.to}});
    }
    out.push_back(
        Object{{"team", change.team}, {"action", change.action}, {"fields", std::move(fields)}});
  }
  return out;
}

// The names of what changes, for the audit log.
void note_changes(Exchange& exchange, const service::TeamChanges::Applied& applied) {
  std::vector<std::string> names;
  for (const service::TeamChange& change : applied.changes) {
    if (change.action != "none") {
      names.push_back(base::cat(change.action, " ", change.team));
    }
  }
  exchange.note("changes", wire::json::Value(service::audit_list(names)));
}

}  // namespace

Task<Result<void>> list_teams(Application& application, Exchange& exchange) {
  CO_RETURN_IF_ERROR(exchange.check_parameters({"scope", "limit", "cursor"}));
  CO_ASSIGN_OR_RETURN(const bool all, scope_parameter(exchange));
  CO_ASSIGN_OR_RETURN(const int64_t limit,
                      exchange.integer_parameter("limit", 1, kListMax, kListDefault));
  CO_ASSIGN_OR_RETURN(const auto cursor, exchange.request().parameter("cursor"));
  Array items;
  std::string last;
  std::string next_cursor;
  for (const auto& [name, team] : application.teams.all()) {
    const bool is_own = exchange.caller().is_in(name);
    if ((!is_own && !all) || (cursor && name <= *cursor)) {
      continue;
    }
    if (static_cast<int64_t>(items.size()) == limit) {
      next_cursor = last;
      break;
    }
    items.push_back(is_own ? service::team_json(*team) : service::foreign_team_json(*team));
    last = name;
  }
  co_return co_await exchange.answer_json(200, list_body(std::move(items), next_cursor));
}

Task<Result<void>> create_team(Application& application, Exchange& exchange) {
  CO_RETURN_IF_ERROR(exchange.check_parameters({}));
  CO_ASSIGN_OR_RETURN(auto body, co_await exchange.read_body(kTeamsBodyBytesMax));
  CO_ASSIGN_OR_RETURN(const auto team, co_await application.team_changes.create(std::move(body)));
  exchange.enter_team(team->name);
  co_return co_await exchange.answer_json(201, wire::json::serialize(service::team_json(*team)),
                                          {{"location", base::cat("/teams/", team->name)}});
}

Task<Result<void>> apply_teams(Application& application, Exchange& exchange) {
  CO_RETURN_IF_ERROR(exchange.check_parameters({"dry_run"}));
  CO_ASSIGN_OR_RETURN(const bool dry_run, exchange.flag_parameter("dry_run"));
  if (dry_run) {
    exchange.audit().event = {};
  }
  CO_ASSIGN_OR_RETURN(auto body, co_await exchange.read_body(kTeamsBodyBytesMax));
  CO_ASSIGN_OR_RETURN(auto document, wire::json::parse_object(body));
  CO_ASSIGN_OR_RETURN(const auto applied,
                      co_await application.team_changes.apply(std::move(document), dry_run));
  note_changes(exchange, applied);
  co_return co_await exchange.answer_json(
      200, wire::json::serialize(Object{{"changes", changes_json(applied.changes)},
                                        {"changes_something", applied.changes_something},
                                        {"applied", !dry_run}}));
}

Task<Result<void>> get_team(Application& application, Exchange& exchange) {
  CO_RETURN_IF_ERROR(exchange.check_parameters({}));
  CO_RETURN_IF_ERROR(check_team(application, exchange));
  CO_ASSIGN_OR_RETURN(const auto team, application.teams.get(exchange.segment(0)));
  co_return co_await exchange.answer_json(200, wire::json::serialize(service::team_json(*team)));
}

Task<Result<void>> put_team(Application& application, Exchange& exchange) {
  CO_RETURN_IF_ERROR(exchange.check_parameters({}));
  exchange.note("name", service::audit_text(exchange.segment(0)));
  CO_ASSIGN_OR_RETURN(auto body, co_await exchange.read_body(kTeamsBodyBytesMax));
  CO_ASSIGN_OR_RETURN(const auto put,
                      co_await application.team_changes.put(exchange.segment(0), std::move(body)));
  exchange.enter_team(put.team->name);
  co_return co_await exchange.answer_json(put.fresh ? 201 : 200,
                                          wire::json::serialize(service::team_json(*put.team)));
}

Task<Result<void>> patch_team(Application& application, Exchange& exchange) {
  CO_RETURN_IF_ERROR(exchange.check_parameters({}));
  CO_RETURN_IF_ERROR(check_team(application, exchange));
  CO_ASSIGN_OR_RETURN(auto body, co_await exchange.read_body(kTeamsBodyBytesMax));
  const bool members_only = !exchange.caller().is_platform_admin;
  CO_ASSIGN_OR_RETURN(const auto team, co_await application.team_changes.patch(
                                           exchange.segment(0), std::move(body), members_only));
  co_return co_await exchange.answer_json(200, wire::json::serialize(service::team_json(*team)));
}

Task<Result<void>> delete_team(Application& application, Exchange& exchange) {
  CO_RETURN_IF_ERROR(exchange.check_parameters({}));
  exchange.note("name", service::audit_text(exchange.segment(0)));
  CO_RETURN_IF_ERROR(co_await application.team_changes.remove(exchange.segment(0)));
  co_return co_await exchange.answer_empty(204);
}

Task<Result<void>> list_members(Application& application, Exchange& exchange) {
  CO_RETURN_IF_ERROR(exchange.check_parameters({}));
  CO_RETURN_IF_ERROR(check_team(application, exchange));
  CO_ASSIGN_OR_RETURN(const auto team, application.teams.get(exchange.segment(0)));
  Array items;
  for (const store::Member& member : team->members) {
    items.push_back(service::member_json(member));
  }
  // Of a group it is not known who is in it, until they sign in.
  Array groups;
  if (application.browsers != nullptr) {
    for (const service::GroupRule& rule : application.browsers->group_rules()) {
      if (rule.team == team->name) {
        groups.push_back(Object{{"group", rule.group}, {"role", model::to_string(rule.role)}});
      }
    }
  }
  const Object answer{
      {"items", std::move(items)}, {"groups", std::move(groups)}, {"next_cursor", nullptr}};
  co_return co_await exchange.answer_json(200, wire::json::serialize(answer));
}

Task<Result<void>> put_member(Application& application, Exchange& exchange) {
  CO_RETURN_IF_ERROR(exchange.check_parameters({}));
  exchange.note("subject", service::audit_text(exchange.segment(1)));
  CO_RETURN_IF_ERROR(check_team(application, exchange));
  CO_ASSIGN_OR_RETURN(auto body, co_await exchange.read_body(kSmallBodyBytesMax));
  CO_ASSIGN_OR_RETURN(const auto member,
                      co_await application.team_changes.put_member(
                          exchange.segment(0), exchange.segment(1), std::move(body)));
  exchange.note("role", model::to_string(member.role));
  co_return co_await exchange.answer_json(200, wire::json::serialize(service::member_json(member)));
}

Task<Result<void>> delete_member(Application& application, Exchange& exchange) {
  CO_RETURN_IF_ERROR(exchange.check_parameters({}));
  exchange.note("subject", service::audit_text(exchange.segment(1)));
  CO_RETURN_IF_ERROR(check_team(application, exchange));
  CO_RETURN_IF_ERROR(
      co_await application.team_changes.remove_member(exchange.segment(0), exchange.segment(1)));
  co_return co_await exchange.answer_empty(204);
}

}  // namespace server
