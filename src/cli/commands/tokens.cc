#include "cli/context.h"

namespace cli {

using base::ErrorCode;
using base::fail;
using wire::json::Array;
using wire::json::Object;
using wire::json::Value;

namespace {

std::string joined_field(const Object& object, std::string_view name) {
  const Value* list = object.if_contains(name);
  std::string out;
  if (list != nullptr && list->is_array()) {
    for (const Value& item : list->get_array()) {
      if (item.is_string()) {
        out += base::cat(out.empty() ? "" : ",", std::string_view(item.get_string()));
      }
    }
  }
  return out;
}

std::string token_table(const Array& items, base::WallTime now) {
  std::vector<std::vector<std::string>> rows;
  for (const Value& item : items) {
    if (!item.is_object()) {
      continue;
    }
    const Object& token = item.get_object();
    const std::string used = field_text(token, "last_used_at");
    const std::string expires = field_text(token, "expires_at");
    rows.push_back({field_text(token, "id"), field_text(token, "name"), field_text(token, "team"),
                    field_text(token, "subject"), field_text(token, "role"),
                    joined_field(token, "scopes"), expires.empty() ? "never" : expires,
                    used.empty() ? "never" : base::cat(format_age(used, now), " ago")});
  }
  return format_table({"ID", "NAME", "TEAM", "SUBJECT", "ROLE", "SCOPES", "EXPIRES", "USED"}, rows);
}

std::string limits_table(const Object& limits) {
  constexpr std::pair<std::string_view, std::string_view> kLimits[] = {
      {"requests_per_sec", "requests a second"},
      {"burst", "requests at once"},
      {"concurrent_creates", "creates at once"},
      {"concurrent_streams", "streams at once"},
      {"body_mb", "megabytes of a body"}};
  const Value* effective = limits.if_contains("effective");
  const auto number = [](const Object* of, std::string_view name, std::string_view absent) {
    const Value* value = of == nullptr ? nullptr : of->if_contains(name);
    return value != nullptr && value->is_int64() ? base::cat(value->get_int64())
                                                 : std::string(absent);
  };
  std::vector<std::vector<std::string>> rows;
  for (const auto& [name, text] : kLimits) {
    const auto holds = number(effective == nullptr ? nullptr : effective->if_object(), name, "?");
    rows.push_back({std::string(text), number(&limits, name, "operator's"),
                    holds == "0" ? "no limit" : holds});
  }
  return format_table({"LIMIT", "OWN", "HOLDS"}, rows);
}

}  // namespace

Result<int> token_list(Context& context, const TokenListOptions& options) {
  std::string query;
  if (!options.team.empty()) {
    add_parameter(query, "team", options.team);
  }
  if (options.all) {
    add_parameter(query, "scope", "all");
  }
  ASSIGN_OR_RETURN(const auto items, context.api.get_list("/tokens", query));
  if (options.quiet) {
    RETURN_IF_ERROR(context.console.write_out(field_lines(items, "id")));
    return 0;
  }
  RETURN_IF_ERROR(print_value(context, items, token_table(items, context.clock.wall())));
  return 0;
}

Result<int> token_create(Context& context, const TokenCreateOptions& options) {
  Object body{{"name", options.name}};
  body["scopes"] = Array(options.scopes.begin(), options.scopes.end());
  const std::pair<std::string_view, const std::string&> texts[] = {
      {"team", options.team}, {"subject", options.subject}, {"role", options.role}};
  for (const auto& [name, value] : texts) {
    if (!value.empty()) {
      body[name] = value;
    }
  }
  if (options.every_team) {
    body["every_team"] = true;
  }
  if (options.expires_sec) {
    body["expires_in_sec"] = *options.expires_sec;
  }
  // Not repeated: each makes a token.
  ASSIGN_OR_RETURN(const auto answer,
                   context.api.call_json({.method = "POST",
                                          .target = "/tokens",
                                          .headers = {{"Content-Type", "application/json"}},
                                          .body = wire::json::serialize(body)},
                                         Repeat::no));
  if (!answer.is_object()) {
    return fail(ErrorCode::internal, "the gateway's answer is not a token");
  }
  const Object& token = answer.get_object();
  context.console.note(base::cat("token ", field_text(token, "id"), " of team ",
                                 field_text(token, "team"), "; it is shown this once"));
  RETURN_IF_ERROR(
      print_value(context, token, escape_for_terminal(field_text(token, "secret")) + "\n"));
  return 0;
}

Result<int> token_revoke(Context& context, const TokenRevokeOptions& options) {
  for (const std::string& id : options.ids) {
    RETURN_IF_ERROR(context.api.call(
        {.method = "DELETE", .target = base::cat("/tokens/", encode_segment(id))}, Repeat::no));
    RETURN_IF_ERROR(context.console.write_out(escape_for_terminal(id) + "\n"));
  }
  return 0;
}

Result<int> token_limits(Context& context, const TokenLimitsOptions& options) {
  const std::string target = base::cat("/tokens/", encode_segment(options.id), "/limits");
  if (options.reset) {
    RETURN_IF_ERROR(context.api.call({.method = "DELETE", .target = target}, Repeat::yes));
  }
  ASSIGN_OR_RETURN(Object limits, context.api.get_object(target));
  const std::pair<std::string_view, std::optional<int64_t>> given[] = {
      {"requests_per_sec", options.rate},
      {"burst", options.burst},
      {"concurrent_creates", options.creates},
      {"concurrent_streams", options.streams},
      {"body_mb", options.body_mb}};
  Object body;
  bool is_changed = false;
  for (const auto& [name, value] : given) {
    const Value* own = limits.if_contains(name);
    if (value) {
      body[name] = *value;
      is_changed = true;
    } else if (own != nullptr && own->is_int64()) {
      body[name] = own->get_int64();
    }
  }
  if (is_changed) {
    ASSIGN_OR_RETURN(const auto answer,
                     context.api.call_json({.method = "PUT",
                                            .target = target,
                                            .headers = {{"Content-Type", "application/json"}},
                                            .body = wire::json::serialize(body)},
                                           Repeat::yes));
    if (!answer.is_object()) {
      return fail(ErrorCode::internal, "the gateway's answer is not a token's limits");
    }
    limits = answer.get_object();
  }
  RETURN_IF_ERROR(print_value(context, limits, limits_table(limits)));
  return 0;
}

}  // namespace cli
