// files ls, stat, rm, mkdir, mv, chmod, watch.
#include "cli/context.h"
#include "cli/resumed_events.h"

namespace cli {

using wire::json::Array;
using wire::json::Object;

namespace {

// "/sandboxes/ID/files/mkdir?path=…&user=…".
std::string files_target(const SandboxTarget& sandbox, std::string_view action,
                         const std::string& path, const std::string& user) {
  std::string query;
  add_parameter(query, "path", path);
  if (!user.empty()) {
    add_parameter(query, "user", user);
  }
  return sandbox_target(sandbox, base::cat("/files", action, "?", query));
}

std::string owner_of(const Object& item) {
  return base::cat(field_text(item, "uid"), ":", field_text(item, "gid"));
}

std::string with_target(const Object& item, std::string_view name) {
  const std::string target = field_text(item, "link_target");
  return target.empty() ? field_text(item, name)
                        : base::cat(field_text(item, name), " -> ", target);
}

std::string listing_table(const Array& items) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& value : items) {
    if (const Object* item = value.if_object()) {
      rows.push_back({field_text(*item, "mode"), field_text(*item, "type"), owner_of(*item),
                      field_text(*item, "size"), field_text(*item, "mtime"),
                      with_target(*item, "path")});
    }
  }
  return format_table({"MODE", "TYPE", "OWNER", "SIZE", "CHANGED", "PATH"}, rows);
}

Result<void> post(Context& context, const std::string& target) {
  RETURN_IF_ERROR(context.api.call({.method = "POST", .target = target}, Repeat::no));
  return {};
}

}  // namespace

Result<int> file_list(Context& context, const FileListOptions& options) {
  std::string target = files_target(options.sandbox, "", options.path, options.user);
  target += base::cat("&list=1&depth=", options.depth);
  ASSIGN_OR_RETURN(const auto answer, context.api.get_object(target));
  wire::json::Reader reader(answer);
  ASSIGN_OR_RETURN(const auto items, reader.required<Array>("items"));
  if (options.names_only) {
    RETURN_IF_ERROR(context.console.write_out(field_lines(items, "path")));
    return 0;
  }
  RETURN_IF_ERROR(print_value(context, items, listing_table(items)));
  return 0;
}

Result<int> file_stat(Context& context, const FileStatOptions& options) {
  const std::string target =
      files_target(options.sandbox, "", options.path, options.user) + "&stat=1";
  ASSIGN_OR_RETURN(const auto item, context.api.get_object(target));
  RETURN_IF_ERROR(print_value(context, item,
                              format_pairs({{"Path", field_text(item, "path")},
                                            {"Type", field_text(item, "type")},
                                            {"Target", field_text(item, "link_target")},
                                            {"Size", field_text(item, "size")},
                                            {"Mode", field_text(item, "mode")},
                                            {"Owner", owner_of(item)},
                                            {"Changed", field_text(item, "mtime")}})));
  return 0;
}

Result<int> file_remove(Context& context, const FileRemoveOptions& options) {
  for (const auto& path : options.paths) {
    std::string target = files_target(options.sandbox, "", path, options.user);
    target += options.recursive ? "&recursive=1" : "";
    // Not repeated: what is there a moment later may be another file.
    RETURN_IF_ERROR(context.api.call({.method = "DELETE", .target = target}, Repeat::no));
  }
  return 0;
}

Result<int> folder_make(Context& context, const FolderMakeOptions& options) {
  for (const auto& path : options.paths) {
    std::string target = files_target(options.sandbox, "/mkdir", path, options.user);
    if (!options.mode.empty()) {
      add_parameter(target, "mode", options.mode);
    }
    RETURN_IF_ERROR(post(context, target));
  }
  return 0;
}

Result<int> file_move(Context& context, const FileMoveOptions& options) {
  std::string target = files_target(options.sandbox, "/move", options.from, options.user);
  add_parameter(target, "to", options.to);
  add_parameter(target, "overwrite", options.replace ? "1" : "0");
  RETURN_IF_ERROR(post(context, target));
  return 0;
}

Result<int> file_mode(Context& context, const FileModeOptions& options) {
  for (const auto& path : options.paths) {
    std::string target = files_target(options.sandbox, "/chmod", path, options.user);
    add_parameter(target, "mode", options.mode);
    target += options.recursive ? "&recursive=1" : "";
    RETURN_IF_ERROR(post(context, target));
  }
  return 0;
}

Result<int> file_watch(Context& context, const FileWatchOptions& options) {
  std::string target = files_target(options.sandbox, "/watch", options.path, options.user);
  target += options.recursive ? "&recursive=1" : "";
  const auto show = [&](const StreamEvent& event) -> Result<bool> {
    ASSIGN_OR_RETURN(const auto change, wire::json::parse_object(event.data));
    switch (context.global.output) {
      case OutputFormat::json:
        RETURN_IF_ERROR(context.console.write_out(format_json_line(change)));
        break;
      case OutputFormat::yaml:
        RETURN_IF_ERROR(context.console.write_out("---\n" + format_yaml(change)));
        break;
      default:
        RETURN_IF_ERROR(context.console.write_out(
            base::cat(escape_for_terminal(field_text(change, "type")), "  ",
                      escape_for_terminal(field_text(change, "path")), "\n")));
    }
    return false;
  };
  RETURN_IF_ERROR(follow_events(context, target, show));
  return 0;
}

}  // namespace cli
