#include "service/caller_text.h"

#include "wire/json.h"

namespace service {
namespace {

using base::ErrorCode;
using base::Result;

wire::json::Value identity_json(const Caller& caller) {
  if (!caller.identity) {
    return nullptr;
  }
  const Identity& identity = *caller.identity;
  return wire::json::Object{
      {"subject", identity.subject},
      {"groups", wire::json::Array(identity.groups.begin(), identity.groups.end())},
      {"expires_ms", identity.expires_ms},
      {"sign_in", identity.sign_in}};
}

wire::json::Value sandbox_json(const Caller& caller) {
  if (!caller.sandbox) {
    return nullptr;
  }
  const ActingSandbox& sandbox = *caller.sandbox;
  return wire::json::Object{
      {"id", sandbox.id},
      {"scopes", wire::json::Array(sandbox.scopes.begin(), sandbox.scopes.end())},
      {"only_itself", sandbox.only_itself}};
}

Result<std::shared_ptr<const ActingSandbox>> parse_sandbox(const wire::json::Value& value) {
  const auto* const object = value.if_object();
  if (object == nullptr) {
    return nullptr;
  }
  wire::json::Reader reader(*object);
  ActingSandbox sandbox;
  ASSIGN_OR_RETURN(sandbox.id, reader.required<std::string>("id"));
  ASSIGN_OR_RETURN(sandbox.scopes, reader.required<std::vector<std::string>>("scopes"));
  ASSIGN_OR_RETURN(sandbox.only_itself, reader.required<bool>("only_itself"));
  return std::make_shared<const ActingSandbox>(std::move(sandbox));
}

Result<std::shared_ptr<const Identity>> parse_identity(const wire::json::Value& value) {
  const auto* const object = value.if_object();
  if (object == nullptr) {
    return nullptr;
  }
  wire::json::Reader reader(*object);
  Identity identity;
  ASSIGN_OR_RETURN(identity.subject, reader.required<std::string>("subject"));
  ASSIGN_OR_RETURN(identity.groups, reader.required<std::vector<std::string>>("groups"));
  ASSIGN_OR_RETURN(identity.expires_ms, reader.required<int64_t>("expires_ms"));
  ASSIGN_OR_RETURN(identity.sign_in, reader.required<std::string>("sign_in"));
  return std::make_shared<const Identity>(std::move(identity));
}

Result<std::vector<Membership>> parse_memberships(const wire::json::Array& rows) {
  std::vector<Membership> out;
  for (const auto& row : rows) {
    const auto* const object = row.if_object();
    if (object == nullptr) {
      return base::fail(ErrorCode::internal, "a caller's memberships are no objects");
    }
    wire::json::Reader reader(*object);
    ASSIGN_OR_RETURN(const auto team, reader.required<std::string>("team"));
    ASSIGN_OR_RETURN(const auto text, reader.required<std::string>("role"));
    const auto role = model::parse_role(text);
    if (!role) {
      return base::fail(ErrorCode::internal, "a caller's role is not known");
    }
    out.push_back({.team = team, .role = *role});
  }
  return out;
}

}  // namespace

std::string caller_text(const Caller& caller) {
  wire::json::Array memberships;
  for (const Membership& membership : caller.memberships) {
    memberships.push_back(
        wire::json::Object{{"team", membership.team}, {"role", model::to_string(membership.role)}});
  }
  return wire::json::serialize(wire::json::Object{
      {"team", caller.team},
      {"subject", caller.subject},
      {"token_id", caller.token_id},
      {"is_admin", caller.is_admin},
      {"is_platform_admin", caller.is_platform_admin},
      {"may_read", caller.may_read},
      {"may_use_sandboxes", caller.may_use_sandboxes},
      {"may_administer", caller.may_administer},
      {"may_read_metrics", caller.may_read_metrics},
      {"memberships", std::move(memberships)},
      {"expires_ms", caller.expires_ms},
      {"identity", identity_json(caller)},
      {"sandbox", sandbox_json(caller)},
  });
}

Result<Caller> parse_caller_text(std::string_view text) {
  ASSIGN_OR_RETURN(const auto object, wire::json::parse_object(text));
  wire::json::Reader reader(object);
  Caller caller;
  ASSIGN_OR_RETURN(caller.team, reader.required<std::string>("team"));
  ASSIGN_OR_RETURN(caller.subject, reader.required<std::string>("subject"));
  ASSIGN_OR_RETURN(caller.token_id, reader.required<std::string>("token_id"));
  ASSIGN_OR_RETURN(caller.is_admin, reader.required<bool>("is_admin"));
  ASSIGN_OR_RETURN(caller.is_platform_admin, reader.required<bool>("is_platform_admin"));
  ASSIGN_OR_RETURN(caller.may_read, reader.required<bool>("may_read"));
  ASSIGN_OR_RETURN(caller.may_use_sandboxes, reader.required<bool>("may_use_sandboxes"));
  ASSIGN_OR_RETURN(caller.may_administer, reader.required<bool>("may_administer"));
  ASSIGN_OR_RETURN(caller.may_read_metrics, reader.required<bool>("may_read_metrics"));
  ASSIGN_OR_RETURN(const auto memberships, reader.required<wire::json::Array>("memberships"));
  ASSIGN_OR_RETURN(caller.memberships, parse_memberships(memberships));
  ASSIGN_OR_RETURN(caller.expires_ms, reader.required<int64_t>("expires_ms"));
  if (const auto* const identity = object.if_contains("identity")) {
    ASSIGN_OR_RETURN(caller.identity, parse_identity(*identity));
  }
  if (const auto* const sandbox = object.if_contains("sandbox")) {
    ASSIGN_OR_RETURN(caller.sandbox, parse_sandbox(*sandbox));
  }
  return caller;
}

}  // namespace service
