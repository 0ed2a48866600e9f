#include "service/team_document.h"

#include <algorithm>
#include <array>

#include "service/caller.h"
#include "service/cpus.h"
#include "service/create_request.h"

namespace service {
namespace {

using base::ErrorCode;
using base::fail_field;
using base::Result;
using wire::json::Array;
using wire::json::Object;
using wire::json::Reader;
using wire::json::Value;

constexpr size_t kNameBytesMax = 40;
constexpr size_t kSubjectBytesMax = 200;
constexpr size_t kPrefixesMax = 100;
constexpr size_t kPrefixBytesMax = 512;
constexpr int64_t kSecondsMax = int64_t{10} * 365 * 24 * 3600;  // ten years: for ever, to a lease
constexpr int64_t kPidsMin = 16;         // an agent, a shell and a few commands
constexpr int64_t kPidsMax = 4'194'304;  // the kernel's own
constexpr int64_t kSandboxesMax = 1'000'000;

// The four figures of a quota or limit; not set: none.
struct Amounts {
  std::optional<int64_t> millicpus;
  std::optional<int64_t> memory_mb;
  std::optional<int64_t> storage_mb;
  std::optional<int64_t> sandboxes;
};

// Where 0 stands for none.
std::optional<int64_t> limit_of(int64_t value) {
  return value == 0 ? std::nullopt : std::optional(value);
}

Amounts maximum_of(const Team& team) {
  return {.millicpus = limit_of(team.max_millicpus),
          .memory_mb = limit_of(team.max_memory_mb),
          .storage_mb = limit_of(team.max_storage_mb),
          .sandboxes = {}};
}

Amounts quota_of(const Team& team) {
  return {.millicpus = team.quota_millicpus,
          .memory_mb = team.quota_memory_mb,
          .storage_mb = team.quota_storage_mb,
          .sandboxes = team.quota_sandboxes};
}

Amounts borrowing_of(const Team& team) {
  return {.millicpus = team.borrow_millicpus,
          .memory_mb = team.borrow_memory_mb,
          .storage_mb = team.borrow_storage_mb,
          .sandboxes = team.borrow_sandboxes};
}

Amounts lending_of(const Team& team) {
  return {.millicpus = team.lend_millicpus,
          .memory_mb = team.lend_memory_mb,
          .storage_mb = team.lend_storage_mb,
          .sandboxes = team.lend_sandboxes};
}

Value number_or_null(const std::optional<int64_t>& value) {
  return value ? Value(*value) : Value(nullptr);
}

enum class Counted { no, yes };

Object amounts_json(const Amounts& amounts, Counted counted) {
  Object out{{"cpus", amounts.millicpus ? cpus_json(*amounts.millicpus) : Value(nullptr)},
             {"memory_mb", number_or_null(amounts.memory_mb)},
             {"storage_mb", number_or_null(amounts.storage_mb)}};
  if (counted == Counted::yes) {
    out["sandboxes"] = number_or_null(amounts.sandboxes);
  }
  return out;
}

bool is_null(const Object& object, std::string_view name) {
  const Value* value = object.if_contains(name);
  return value != nullptr && value->is_null();
}

std::unexpected<base::Error> out_of_range(const std::string& field, int64_t least, int64_t most) {
  return fail_field(field, "'", field, "' must be from ", least, " to ", most);
}

Result<void> read_number(Reader& reader, std::string_view name, int64_t least, int64_t most,
                         int64_t& into) {
  ASSIGN_OR_RETURN(const auto value, reader.optional<int64_t>(name));
  if (value && (*value < least || *value > most)) {
    return out_of_range(reader.path(name), least, most);
  }
  into = value.value_or(into);
  return {};
}

// A limit: null is none.
Result<void> read_limit(Reader& reader, const Object& object, std::string_view name, int64_t least,
                        int64_t most, std::optional<int64_t>& into) {
  ASSIGN_OR_RETURN(const auto value, reader.optional<int64_t>(name));
  if (value && (*value < least || *value > most)) {
    return out_of_range(reader.path(name), least, most);
  }
  if (value || is_null(object, name)) {
    into = value;
  }
  return {};
}

Result<void> read_cpus(Reader& reader, const Object& object, int64_t least,
                       std::optional<int64_t>& into) {
  ASSIGN_OR_RETURN(const auto cpus, reader.optional<double>("cpus"));
  if (!cpus) {
    into = is_null(object, "cpus") ? std::nullopt : into;
    return {};
  }
  const std::string field = reader.path("cpus");
  ASSIGN_OR_RETURN(const int64_t millicpus, millicpus_of(field, *cpus));
  if (millicpus < least) {
    return fail_field(field, "'", field, "' must be above 0, or null for no limit");
  }
  into = millicpus;
  return {};
}

// `least`: 0 where nothing is a limit too, else 1.
Result<Amounts> read_amounts(Reader& outer, std::string_view name, Amounts amounts, Counted counted,
                             int64_t least) {
  ASSIGN_OR_RETURN(const auto value, outer.optional<Value>(name));
  if (!value) {
    return amounts;
  }
  if (!value->is_object()) {
    const std::string field = outer.path(name);
    return fail_field(field, "'", field, "' must be an object");
  }
  const Object& object = value->get_object();
  Reader reader(object, outer.path(name));
  RETURN_IF_ERROR(read_cpus(reader, object, least, amounts.millicpus));
  RETURN_IF_ERROR(read_limit(reader, object, "memory_mb", least, kMegabytesMax, amounts.memory_mb));
  RETURN_IF_ERROR(
      read_limit(reader, object, "storage_mb", least, kMegabytesMax, amounts.storage_mb));
  if (counted == Counted::yes) {
    RETURN_IF_ERROR(
        read_limit(reader, object, "sandboxes", least, kSandboxesMax, amounts.sandboxes));
  }
  RETURN_IF_ERROR(reader.finish());
  return amounts;
}

// What would be lent beyond what there is, is a mistake.
Result<void> check_lending(const std::string& field, const Amounts& lending, const Amounts& quota) {
  const auto check = [&](std::string_view name, const std::optional<int64_t>& lent,
                         const std::optional<int64_t>& owned) -> Result<void> {
    if (lent && owned && *lent > *owned) {
      return fail_field(base::cat(field, ".", name), "'", field, ".", name,
                        "' is more than the quota");
    }
    return {};
  };
  RETURN_IF_ERROR(check("cpus", lending.millicpus, quota.millicpus));
  RETURN_IF_ERROR(check("memory_mb", lending.memory_mb, quota.memory_mb));
  RETURN_IF_ERROR(check("storage_mb", lending.storage_mb, quota.storage_mb));
  return check("sandboxes", lending.sandboxes, quota.sandboxes);
}

Result<void> read_all_amounts(Reader& reader, Team& team) {
  ASSIGN_OR_RETURN(const auto maximum,
                   read_amounts(reader, "max", maximum_of(team), Counted::no, 1));
  team.max_millicpus = maximum.millicpus.value_or(0);
  team.max_memory_mb = maximum.memory_mb.value_or(0);
  team.max_storage_mb = maximum.storage_mb.value_or(0);
  ASSIGN_OR_RETURN(const auto quota,
                   read_amounts(reader, "quota", quota_of(team), Counted::yes, 0));
  team.quota_millicpus = quota.millicpus;
  team.quota_memory_mb = quota.memory_mb;
  team.quota_storage_mb = quota.storage_mb;
  team.quota_sandboxes = quota.sandboxes;
  ASSIGN_OR_RETURN(const auto borrowing,
                   read_amounts(reader, "borrowing_limit", borrowing_of(team), Counted::yes, 0));
  team.borrow_millicpus = borrowing.millicpus;
  team.borrow_memory_mb = borrowing.memory_mb;
  team.borrow_storage_mb = borrowing.storage_mb;
  team.borrow_sandboxes = borrowing.sandboxes;
  ASSIGN_OR_RETURN(const auto lending,
                   read_amounts(reader, "lending_limit", lending_of(team), Counted::yes, 0));
  RETURN_IF_ERROR(check_lending(reader.path("lending_limit"), lending, quota));
  team.lend_millicpus = lending.millicpus;
  team.lend_memory_mb = lending.memory_mb;
  team.lend_storage_mb = lending.storage_mb;
  team.lend_sandboxes = lending.sandboxes;
  return {};
}

// No list names a thing twice.
Result<void> check_distinct(const std::string& field, std::vector<std::string> list) {
  std::ranges::sort(list);
  const auto twice = std::ranges::adjacent_find(list);
  if (twice != list.end()) {
    return fail_field(field, "'", field, "' names '", *twice, "' twice");
  }
  return {};
}

bool is_printable(std::string_view text) {
  return base::is_utf8(text) && std::ranges::none_of(text, [](char c) {
           const auto byte = static_cast<unsigned char>(c);
           return byte <= 0x20 || byte == 0x7F;
         });
}

// As it stands before a normalised reference: "debian" is Docker Hub's. What stands before the
// first slash is a registry when it looks like a host; a name alone is one with a dot that is not
// its tag's.
std::string normalised_prefix(const std::string& prefix) {
  for (const std::string_view local : {"dir:", "tar:", "build:"}) {
    if (prefix.starts_with(local)) {
      return prefix;
    }
  }
  const size_t slash = prefix.find('/');
  const std::string_view first = std::string_view(prefix).substr(0, slash);
  if (slash == std::string::npos) {
    const bool is_host = first.substr(0, first.find(':')).contains('.');
    return is_host ? prefix : base::cat("docker.io/library/", prefix);
  }
  const bool is_host = first.contains('.') || first.contains(':') || first == "localhost";
  return is_host ? prefix : base::cat("docker.io/", prefix);
}

Result<void> read_prefixes(Reader& reader, Team& team) {
  ASSIGN_OR_RETURN(auto prefixes, reader.optional<std::vector<std::string>>("image_prefixes"));
  if (!prefixes) {
    return {};
  }
  const std::string field = reader.path("image_prefixes");
  if (prefixes->size() > kPrefixesMax) {
    return fail_field(field, "more than ", kPrefixesMax, " prefixes");
  }
  for (std::string& prefix : *prefixes) {
    if (prefix.empty() || prefix.size() > kPrefixBytesMax || !is_printable(prefix)) {
      return fail_field(field, "a prefix must have 1 to ", kPrefixBytesMax,
                        " bytes without blanks and control characters");
    }
    prefix = normalised_prefix(prefix);
  }
  RETURN_IF_ERROR(check_distinct(field, *prefixes));
  team.image_prefixes = std::move(*prefixes);
  return {};
}

Result<void> read_isolation(Reader& reader, Team& team) {
  ASSIGN_OR_RETURN(auto levels, reader.optional<std::vector<std::string>>("isolation"));
  if (!levels) {
    return {};
  }
  constexpr std::array<std::string_view, 3> kLevels{"container", "gvisor", "vm"};
  const std::string field = reader.path("isolation");
  const auto is_level = [&](const std::string& level) {
    return std::ranges::find(kLevels, level) != kLevels.end();
  };
  if (levels->empty() || !std::ranges::all_of(*levels, is_level)) {
    return fail_field(field, "'", field, "' must name at least one of container, gvisor and vm");
  }
  RETURN_IF_ERROR(check_distinct(field, *levels));
  team.isolation = std::move(*levels);
  return {};
}

Result<store::Member> parse_member(const Value& value, const std::string& field) {
  if (!value.is_object()) {
    return fail_field(field, "'", field, "' must be an object");
  }
  Reader reader(value.get_object(), field);
  store::Member member;
  ASSIGN_OR_RETURN(member.subject, reader.required<std::string>("subject"));
  RETURN_IF_ERROR(check_subject(reader.path("subject"), member.subject));
  ASSIGN_OR_RETURN(const auto role, reader.optional<std::string>("role"));
  ASSIGN_OR_RETURN(member.role, parse_role_field(reader.path("role"), role.value_or("member")));
  RETURN_IF_ERROR(reader.finish());
  return member;
}

Result<void> read_members(Reader& reader, Team& team) {
  ASSIGN_OR_RETURN(const auto array, reader.optional<Array>("members"));
  if (!array) {
    return {};
  }
  const std::string field = reader.path("members");
  if (array->size() > kMembersMax) {
    return fail_field(field, "more than ", kMembersMax, " members");
  }
  std::vector<store::Member> members;
  for (const Value& value : *array) {
    ASSIGN_OR_RETURN(auto member, parse_member(value, base::cat(field, "[", members.size(), "]")));
    members.push_back(std::move(member));
  }
  std::ranges::sort(members, {}, &store::Member::subject);
  const auto twice = std::ranges::adjacent_find(members, {}, &store::Member::subject);
  if (twice != members.end()) {
    return fail_field(field, "'", field, "' names '", twice->subject, "' twice");
  }
  team.members = std::move(members);
  return {};
}

Result<void> read_times_and_sizes(Reader& reader, Team& team) {
  RETURN_IF_ERROR(read_number(reader, "lease_sec", 1, kSecondsMax, team.lease_sec));
  RETURN_IF_ERROR(read_number(reader, "max_lifetime_sec", 1, kSecondsMax, team.max_lifetime_sec));
  RETURN_IF_ERROR(read_number(reader, "queue_max_sec", 1, kSecondsMax, team.queue_max_sec));
  RETURN_IF_ERROR(read_number(reader, "start_max_sec", 1, kSecondsMax, team.start_max_sec));
  RETURN_IF_ERROR(read_number(reader, "pids", kPidsMin, kPidsMax, team.pids));
  RETURN_IF_ERROR(
      read_number(reader, "storage_mb", kStorageMbMin, kMegabytesMax, team.default_storage_mb));
  if (team.max_storage_mb != 0 && team.default_storage_mb > team.max_storage_mb) {
    const std::string field = reader.path("storage_mb");
    return fail_field(field, "'", field, "' is more than one sandbox may have");
  }
  return {};
}

Result<void> read_flags(Reader& reader, Team& team) {
  ASSIGN_OR_RETURN(const auto builds, reader.optional<bool>("builds"));
  team.builds = builds.value_or(team.builds);
  ASSIGN_OR_RETURN(const auto reclaim, reader.optional<bool>("reclaim"));
  team.reclaim = reclaim.value_or(team.reclaim);
  ASSIGN_OR_RETURN(const auto network, reader.optional<Object>("network"));
  if (network) {
    ASSIGN_OR_RETURN(const auto policy, parse_network(*network, reader.path("network")));
    team.network = model::to_text(policy);
  }
  return {};
}

Result<void> read_identity(Reader& outer, Team& team) {
  ASSIGN_OR_RETURN(const auto object, outer.optional<Object>("sandbox_identity"));
  if (!object) {
    return {};
  }
  Reader reader(*object, outer.path("sandbox_identity"));
  ASSIGN_OR_RETURN(const auto sandboxes, reader.optional<std::string>("sandboxes"));
  const std::string field = reader.path("sandboxes");
  if (sandboxes && *sandboxes != "own" && *sandboxes != "team" && *sandboxes != "none") {
    return fail_field(field, "'", field, "' must be own, team or none");
  }
  ASSIGN_OR_RETURN(auto scopes, reader.optional<std::vector<std::string>>("scopes"));
  if (scopes) {
    const std::string path = reader.path("scopes");
    const auto is_scope = [](const std::string& scope) {
      return scope == token_scope::kRead || scope == token_scope::kMember;
    };
    if (scopes->empty() || !std::ranges::all_of(*scopes, is_scope)) {
      return fail_field(path, "'", path, "' must name at least one of read and member");
    }
    RETURN_IF_ERROR(check_distinct(path, *scopes));
    std::ranges::sort(*scopes);
  }
  RETURN_IF_ERROR(reader.finish());
  team.identity_sandboxes = sandboxes.value_or(team.identity_sandboxes);
  team.identity_scopes = std::move(scopes).value_or(team.identity_scopes);
  return {};
}

void add_changes(std::vector<FieldChange>& out, const std::string& prefix, const Object& from,
                 const Object& to) {
  const auto name_of = [&prefix](std::string_view key) {
    return prefix.empty() ? std::string(key) : base::cat(prefix, ".", key);
  };
  // A list goes with one mode of the network only.
  for (const auto& field : from) {
    if (!to.contains(field.key())) {
      out.push_back({.field = name_of(field.key()), .from = field.value(), .to = nullptr});
    }
  }
  for (const auto& field : to) {
    const Value* known = from.if_contains(field.key());
    const Value before = known == nullptr ? Value() : *known;
    std::string name = name_of(field.key());
    if (before.is_object() && field.value().is_object()) {
      add_changes(out, name, before.get_object(), field.value().get_object());
    } else if (before != field.value()) {
      out.push_back({.field = std::move(name), .from = before, .to = field.value()});
    }
  }
}

Array texts_json(const std::vector<std::string>& texts) {
  return Array(texts.begin(), texts.end());
}

}  // namespace

Result<void> check_team_name(std::string_view field, std::string_view name) {
  const auto is_allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  };
  if (name.empty() || name.size() > kNameBytesMax || !std::ranges::all_of(name, is_allowed) ||
      name.starts_with('-') || name.ends_with('-')) {
    return fail_field(field, "'", field, "' must have 1 to ", kNameBytesMax,
                      " lower-case letters, digits and inner '-'");
  }
  return {};
}

Result<void> check_subject(std::string_view field, std::string_view subject) {
  if (subject.empty() || subject.size() > kSubjectBytesMax || !is_printable(subject)) {
    return fail_field(field, "'", field, "' must have 1 to ", kSubjectBytesMax,
                      " bytes without blanks and control characters");
  }
  return {};
}

Result<model::Role> parse_role_field(std::string_view field, std::string_view text) {
  const auto role = model::parse_role(text);
  if (!role) {
    return fail_field(field, "'", field, "' must be member or admin");
  }
  return *role;
}

Object member_json(const store::Member& member) {
  return Object{{"subject", member.subject}, {"role", model::to_string(member.role)}};
}

Object team_json(const Team& team) {
  Array members;
  for (const store::Member& member : team.members) {
    members.push_back(member_json(member));
  }
  return Object{{"name", team.name},
                {"image_prefixes", texts_json(team.image_prefixes)},
                {"builds", team.builds},
                {"max", amounts_json(maximum_of(team), Counted::no)},
                {"quota", amounts_json(quota_of(team), Counted::yes)},
                {"borrowing_limit", amounts_json(borrowing_of(team), Counted::yes)},
                {"lending_limit", amounts_json(lending_of(team), Counted::yes)},
                {"reclaim", team.reclaim},
                {"storage_mb", team.default_storage_mb},
                {"lease_sec", team.lease_sec},
                {"max_lifetime_sec", team.max_lifetime_sec},
                {"queue_max_sec", team.queue_max_sec},
                {"start_max_sec", team.start_max_sec},
                {"pids", team.pids},
                {"isolation", texts_json(team.isolation)},
                {"network", network_json(team_network(team))},
                {"sandbox_identity", Object{{"sandboxes", team.identity_sandboxes},
                                            {"scopes", texts_json(team.identity_scopes)}}},
                {"members", std::move(members)}};
}

Object foreign_team_json(const Team& team) {
  return Object{{"name", team.name}, {"quota", amounts_json(quota_of(team), Counted::yes)}};
}

Result<Team> parse_team(const Object& body, const std::string& prefix, Team base) {
  Reader reader(body, prefix);
  Team team = std::move(base);
  ASSIGN_OR_RETURN(const auto name, reader.optional<std::string>("name"));
  if (name && *name != team.name) {
    const std::string field = reader.path("name");
    return fail_field(field, "'", field, "' is not the name of the team, which stays");
  }
  RETURN_IF_ERROR(read_prefixes(reader, team));
  RETURN_IF_ERROR(read_all_amounts(reader, team));
  RETURN_IF_ERROR(read_times_and_sizes(reader, team));
  RETURN_IF_ERROR(read_flags(reader, team));
  RETURN_IF_ERROR(read_isolation(reader, team));
  RETURN_IF_ERROR(read_identity(reader, team));
  RETURN_IF_ERROR(read_members(reader, team));
  RETURN_IF_ERROR(reader.finish());
  return team;
}

std::vector<FieldChange> changes_between(const Team& from, const Team& to) {
  std::vector<FieldChange> out;
  add_changes(out, "", team_json(from), team_json(to));
  return out;
}

}  // namespace service
