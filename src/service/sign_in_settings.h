// What the operator says of sign-ins by OpenID Connect, read once at start. Values; pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/secret.h"
#include "model/role.h"
#include "wire/json.h"

namespace service {

inline constexpr size_t kGroupRulesMax = 1000;  // each request of a person looks through them
inline constexpr size_t kClientSecretBytesMax = 4096;

// Who is in a group of the issuer is in that team, with that role.
struct GroupRule {
  std::string group;
  std::string team;
  model::Role role = model::Role::member;
  bool operator==(const GroupRule&) const = default;
};

struct SignInSettings {
  std::string issuer;  // its address; empty: nobody signs in
  std::string client_id;
  base::Secret client_secret;          // empty: a public client
  std::vector<std::string> audiences;  // of bearer tokens; one of them
  std::string subject_claim = "email";
  std::string groups_claim = "groups";
  std::string scopes = "openid email profile";
  std::string public_url;  // where people reach the gateway; empty: no sign-in by browser
  std::string ca_file;
  int64_t skew_sec = 60;
  int64_t session_sec = 3600;
  std::vector<GroupRule> groups;  // in the operator's order
};

// {"groups": [{"group", "team", "role"?}]}. Errors name the field.
base::Result<std::vector<GroupRule>> parse_group_rules(const wire::json::Object& document);
// Words between commas or blanks.
std::vector<std::string> words_of(std::string_view text);
// What does not fit together; an error names the options as the configuration does.
base::Result<void> check_sign_in(const SignInSettings& settings);

}  // namespace service
