#include "service/sign_in_settings.h"

#include <algorithm>

#include "oidc/url.h"
#include "service/team_document.h"

namespace service {
namespace {

using base::fail_field;
using base::Result;
using wire::json::Reader;

constexpr size_t kGroupBytesMax = 512;  // a name of LDAP

Result<GroupRule> parse_rule(const wire::json::Value& value, const std::string& field) {
  if (!value.is_object()) {
    return fail_field(field, "'", field, "' must be an object");
  }
  Reader reader(value.get_object(), field);
  GroupRule rule;
  ASSIGN_OR_RETURN(rule.group, reader.required<std::string>("group"));
  if (rule.group.empty() || rule.group.size() > kGroupBytesMax) {
    return fail_field(reader.path("group"), "'", reader.path("group"), "' must have 1 to ",
                      kGroupBytesMax, " bytes");
  }
  ASSIGN_OR_RETURN(rule.team, reader.required<std::string>("team"));
  RETURN_IF_ERROR(check_team_name(reader.path("team"), rule.team));
  ASSIGN_OR_RETURN(const auto role, reader.optional<std::string>("role"));
  ASSIGN_OR_RETURN(rule.role, parse_role_field(reader.path("role"), role.value_or("member")));
  RETURN_IF_ERROR(reader.finish());
  return rule;
}

}  // namespace

Result<std::vector<GroupRule>> parse_group_rules(const wire::json::Object& document) {
  Reader reader(document);
  ASSIGN_OR_RETURN(const auto list, reader.required<wire::json::Array>("groups"));
  RETURN_IF_ERROR(reader.finish());
  if (list.size() > kGroupRulesMax) {
    return fail_field("groups", "more than ", kGroupRulesMax, " groups");
  }
  std::vector<GroupRule> rules;
  for (const auto& value : list) {
    const std::string field = base::cat("groups[", rules.size(), "]");
    ASSIGN_OR_RETURN(GroupRule rule, parse_rule(value, field));
    const bool is_known = std::ranges::any_of(rules, [&rule](const GroupRule& one) {
      return one.group == rule.group && one.team == rule.team;
    });
    if (is_known) {
      return fail_field(field, "'", field, "' stands there twice: group '", rule.group,
                        "' in team '", rule.team, "'");
    }
    rules.push_back(std::move(rule));
  }
  return rules;
}

std::vector<std::string> words_of(std::string_view text) {
  std::string with_blanks(text);
  std::ranges::replace(with_blanks, ',', ' ');
  std::vector<std::string> words;
  for (const std::string_view word : base::split(with_blanks, ' ')) {
    if (!word.empty()) {
      words.emplace_back(word);
    }
  }
  return words;
}

Result<void> check_sign_in(const SignInSettings& settings) {
  if (!settings.public_url.empty()) {
    RETURN_IF_ERROR(oidc::check_url("public-url", settings.public_url));
    if (oidc::origin_of(settings.public_url) != base::lower(settings.public_url)) {
      return fail_field("public-url", "public-url: it has no path, like https://HOST[:PORT]");
    }
  }
  if (settings.issuer.empty()) {
    const bool has_more =
        !settings.client_id.empty() || !settings.audiences.empty() || !settings.groups.empty();
    return has_more ? fail_field("oidc-issuer", "oidc-issuer: the other keys of sign-in need it")
                    : Result<void>{};
  }
  RETURN_IF_ERROR(oidc::check_url("oidc-issuer", settings.issuer));
  if (settings.audiences.empty()) {
    return fail_field("oidc-audience",
                      "oidc-audience: it is needed where there is no oidc-client-id");
  }
  const auto scopes = words_of(settings.scopes);
  if (std::ranges::find(scopes, "openid") == scopes.end()) {
    return fail_field("oidc-scopes", "oidc-scopes: 'openid' must be among them");
  }
  return {};
}

}  // namespace service
