// team, apply and me.
#include <poll.h>
#include <unistd.h>

#include "base/sys.h"
#include "cli/context.h"
#include "definition/yaml.h"

namespace cli {

using base::ErrorCode;
using base::fail;
using wire::json::Array;
using wire::json::Object;
using wire::json::Value;

namespace {

std::string team_target(std::string_view name, std::string_view suffix = "") {
  return base::cat("/teams/", encode_segment(name), suffix);
}

Result<Value> send(Context& context, const std::string& method, const std::string& target,
                   const Value& body) {
  return context.api.call_json({.method = method,
                                .target = target,
                                .headers = {{"Content-Type", "application/json"}},
                                .body = wire::json::serialize(body)},
                               Repeat::no);
}

Result<std::string> read_text(const std::string& file) {
  if (file != "-") {
    return base::sys::read_file(file, definition::kBytesMax);
  }
  std::string text;
  std::string piece(size_t{64} * 1024, '\0');
  for (;;) {
    const ssize_t got = ::read(STDIN_FILENO, piece.data(), piece.size());
    if (got < 0) {
      return base::fail_errno(errno, "read standard input");
    }
    if (got == 0) {
      return text;
    }
    text.append(piece, 0, static_cast<size_t>(got));
    if (text.size() > definition::kBytesMax) {
      return fail(ErrorCode::malformed, "more than ", definition::kBytesMax, " bytes");
    }
  }
}

Result<Object> read_definition(const std::string& file) {
  ASSIGN_OR_RETURN(const auto text, read_text(file));
  ASSIGN_OR_RETURN(auto value, base::with_context(definition::parse_yaml(text), file));
  if (!value.is_object()) {
    return fail(ErrorCode::malformed, file, ": it must be a mapping");
  }
  return std::move(value.get_object());
}

// "quota.cpus=8" into {"quota": {"cpus": 8}}.
Result<void> set_field(Object& object, const std::string& setting) {
  const size_t equals = setting.find('=');
  if (equals == std::string::npos || equals == 0) {
    return base::fail_field("--set", "'", setting, "' must be FIELD=VALUE");
  }
  ASSIGN_OR_RETURN(Value value,
                   base::with_context(definition::parse_yaml(setting.substr(equals + 1)), setting));
  const std::string path = setting.substr(0, equals);
  const auto names = base::split(path, '.');
  Object* place = &object;
  for (size_t i = 0; i + 1 < names.size(); ++i) {
    Value& inner = (*place)[names[i]];
    if (!inner.is_object()) {
      inner = Object{};
    }
    place = &inner.get_object();
  }
  (*place)[names.back()] = std::move(value);
  return {};
}

Result<Object> definition_of(const TeamDefinitionOptions& options) {
  Object object;
  if (!options.file.empty()) {
    ASSIGN_OR_RETURN(object, read_definition(options.file));
  }
  for (const std::string& setting : options.settings) {
    RETURN_IF_ERROR(set_field(object, setting));
  }
  return object;
}

std::string quota_text(const Object& team) {
  const Value* quota = team.if_contains("quota");
  if (quota == nullptr || !quota->is_object()) {
    return "";
  }
  std::string out;
  for (const std::string_view name : {"cpus", "memory_mb", "storage_mb", "sandboxes"}) {
    const std::string text = field_text(quota->get_object(), name);
    if (!text.empty()) {
      out += base::cat(out.empty() ? "" : ",", name, "=", text);
    }
  }
  return out.empty() ? "none" : out;
}

std::string team_table(const Array& items) {
  std::vector<std::vector<std::string>> rows;
  for (const Value& item : items) {
    if (!item.is_object()) {
      continue;
    }
    const Object& team = item.get_object();
    const Value* members = team.if_contains("members");
    rows.push_back(
        {field_text(team, "name"), quota_text(team), field_text(team, "lease_sec"),
         field_text(team, "max_lifetime_sec"),
         members != nullptr && members->is_array() ? base::cat(members->get_array().size()) : ""});
  }
  return format_table({"NAME", "QUOTA", "LEASE_SEC", "LIFETIME_SEC", "MEMBERS"}, rows);
}

std::string member_table(const Array& items) {
  std::vector<std::vector<std::string>> rows;
  for (const Value& item : items) {
    if (item.is_object()) {
      const std::string group = field_text(item.get_object(), "group");
      rows.push_back(
          {group.empty() ? field_text(item.get_object(), "subject") : base::cat("(group) ", group),
           field_text(item.get_object(), "role")});
    }
  }
  return format_table({"SUBJECT", "ROLE"}, rows);
}

// One line a field: "~ red quota.cpus: 8 -> 16".
std::string changes_text(const Object& answer) {
  const Value* changes = answer.if_contains("changes");
  if (changes == nullptr || !changes->is_array()) {
    return "";
  }
  std::string out;
  for (const Value& value : changes->get_array()) {
    if (!value.is_object()) {
      continue;
    }
    const Object& change = value.get_object();
    const std::string action = field_text(change, "action");
    const std::string team = escape_for_terminal(field_text(change, "team"));
    if (action == "none") {
      continue;
    }
    const std::string_view sign = action == "create" ? "+" : action == "delete" ? "-" : "~";
    out += base::cat(sign, " team ", team, "\n");
    const Value* fields = change.if_contains("fields");
    if (fields == nullptr || !fields->is_array()) {
      continue;
    }
    for (const Value& field : fields->get_array()) {
      if (field.is_object()) {
        const Object& one = field.get_object();
        const auto text = [&](std::string_view name) {
          const Value* side = one.if_contains(name);
          return side == nullptr ? "" : escape_for_terminal(wire::json::serialize(*side));
        };
        out += base::cat("    ", escape_for_terminal(field_text(one, "field")), ": ", text("from"),
                         " -> ", text("to"), "\n");
      }
    }
  }
  return out;
}

Result<bool> ask_yes(Context& context) {
  if (::isatty(STDIN_FILENO) != 1) {
    return fail(ErrorCode::invalid_field, "nobody is there to ask: give --yes");
  }
  RETURN_IF_ERROR(context.console.write_error("Apply? [y/N] "));
  std::string line(16, '\0');
  RETURN_IF_ERROR(context.interrupt.wait_for(STDIN_FILENO, POLLIN));
  const ssize_t got = ::read(STDIN_FILENO, line.data(), line.size());
  const std::string answer =
      base::lower(base::trim(std::string_view(line).substr(0, got > 1 ? size_t(got) - 1 : 0)));
  return answer == "y" || answer == "yes";
}

Result<int> show_team(Context& context, const Value& team) {
  if (!team.is_object()) {
    return fail(ErrorCode::internal, "the gateway's answer is not a team");
  }
  RETURN_IF_ERROR(print_value(context, team, format_yaml(team)));
  return 0;
}

}  // namespace

Result<int> team_list(Context& context, const TeamListOptions& options) {
  ASSIGN_OR_RETURN(const auto items,
                   context.api.get_list("/teams", options.all ? "scope=all" : ""));
  if (options.quiet) {
    RETURN_IF_ERROR(context.console.write_out(field_lines(items, "name")));
    return 0;
  }
  RETURN_IF_ERROR(print_value(context, items, team_table(items)));
  return 0;
}

Result<int> team_get(Context& context, const TeamGetOptions& options) {
  ASSIGN_OR_RETURN(const auto team, context.api.get_object(team_target(options.name)));
  return show_team(context, team);
}

Result<int> team_create(Context& context, const TeamCreateOptions& options) {
  ASSIGN_OR_RETURN(Object team, definition_of(options.definition));
  team["name"] = options.name;
  ASSIGN_OR_RETURN(const auto made, send(context, "POST", "/teams", team));
  return show_team(context, made);
}

Result<int> team_update(Context& context, const TeamUpdateOptions& options) {
  ASSIGN_OR_RETURN(const Object changes, definition_of(options.definition));
  if (changes.empty()) {
    return base::fail_field("--set", "nothing is to be changed: give --set or --file");
  }
  ASSIGN_OR_RETURN(const auto team, send(context, "PATCH", team_target(options.name), changes));
  return show_team(context, team);
}

Result<int> team_delete(Context& context, const TeamDeleteOptions& options) {
  for (const std::string& name : options.names) {
    RETURN_IF_ERROR(
        context.api.call({.method = "DELETE", .target = team_target(name)}, Repeat::no));
    RETURN_IF_ERROR(context.console.write_out(escape_for_terminal(name) + "\n"));
  }
  return 0;
}

Result<int> team_members(Context& context, const TeamMembersOptions& options) {
  for (const std::string& subject : options.removed) {
    const std::string target =
        team_target(options.name, base::cat("/members/", encode_segment(subject)));
    RETURN_IF_ERROR(context.api.call({.method = "DELETE", .target = target}, Repeat::no));
  }
  for (const std::string& subject : options.added) {
    const std::string target =
        team_target(options.name, base::cat("/members/", encode_segment(subject)));
    RETURN_IF_ERROR(send(context, "PUT", target, Object{{"role", options.role}}));
  }
  ASSIGN_OR_RETURN(const auto answer,
                   context.api.get_object(team_target(options.name, "/members")));
  wire::json::Reader reader(answer);
  ASSIGN_OR_RETURN(auto items, reader.required<Array>("items"));
  // Groups of the issuer whose people are in the team too.
  ASSIGN_OR_RETURN(const auto groups, reader.optional<Array>("groups"));
  if (groups) {
    items.insert(items.end(), groups->begin(), groups->end());
  }
  RETURN_IF_ERROR(print_value(context, items, member_table(items)));
  return 0;
}

Result<int> apply(Context& context, const ApplyOptions& options) {
  ASSIGN_OR_RETURN(Object document, read_definition(options.file));
  if (options.prune) {
    document["prune"] = true;
  }
  ASSIGN_OR_RETURN(const auto planned, send(context, "PUT", "/teams?dry_run=1", document));
  if (!planned.is_object()) {
    return fail(ErrorCode::internal, "the gateway's answer is no plan");
  }
  const bool changes = field_text(planned.get_object(), "changes_something") == "true";
  const std::string diff = changes_text(planned.get_object());
  if (options.dry_run || !changes) {
    RETURN_IF_ERROR(print_value(context, planned, changes ? diff : "nothing to change\n"));
    return 0;
  }
  if (!options.yes) {
    RETURN_IF_ERROR(context.console.write_error(diff));
    ASSIGN_OR_RETURN(const bool agreed, ask_yes(context));
    if (!agreed) {
      context.console.note("nothing was changed");
      return kExitOwnError;
    }
  }
  ASSIGN_OR_RETURN(const auto applied, send(context, "PUT", "/teams", document));
  if (!applied.is_object()) {
    return fail(ErrorCode::internal, "the gateway's answer is not what it did");
  }
  RETURN_IF_ERROR(print_value(context, applied, changes_text(applied.get_object())));
  return 0;
}

Result<int> me(Context& context, const MeOptions&) {
  ASSIGN_OR_RETURN(const auto caller, context.api.get_object("/me"));
  RETURN_IF_ERROR(print_value(context, caller, format_fields(caller)));
  return 0;
}

}  // namespace cli
