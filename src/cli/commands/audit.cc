// activity and audit: who did what, in one sandbox or in the team.
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/sys.h"
#include "cli/context.h"
#include "wire/audit_chain.h"

namespace cli {

using base::ErrorCode;
using base::fail;
using wire::json::Array;
using wire::json::Object;

namespace {

// The exit code of a log that is broken.
constexpr int kExitBroken = 1;
constexpr mode_t kExportMode = 0600;

std::string result_text(const Object& row) {
  const std::string error = field_text(row, "error");
  return error.empty() ? field_text(row, "status") : error;
}

std::string audit_table(const Array& rows) {
  std::vector<std::vector<std::string>> cells;
  for (const auto& value : rows) {
    if (const Object* row = value.if_object()) {
      cells.push_back({field_text(*row, "at"), field_text(*row, "event"),
                       field_text(*row, "caller"), field_text(*row, "sandbox"),
                       field_text(*row, "remote"), result_text(*row), field_text(*row, "details")});
    }
  }
  return format_table({"AT", "EVENT", "CALLER", "SANDBOX", "FROM", "RESULT", "DETAILS"}, cells);
}

std::string activity_table(const Object& answer) {
  std::vector<std::vector<std::string>> cells;
  const auto* items = answer.if_contains("items");
  for (const auto& value : items != nullptr && items->is_array() ? items->get_array() : Array()) {
    const Object* item = value.if_object();
    const auto* total = item == nullptr ? nullptr : item->if_contains("total");
    if (total != nullptr && total->is_object()) {
      std::vector<std::string> line{field_text(*item, "team"), field_text(*item, "subject")};
      for (const std::string_view name :
           {"actions", "failures", "commands", "command_seconds", "creates", "sandbox_seconds"}) {
        line.push_back(field_text(total->get_object(), name));
      }
      for (const std::string_view name : {"bytes_in", "bytes_out"}) {
        const auto bytes = base::parse_number<int64_t>(field_text(total->get_object(), name));
        line.push_back(format_bytes(bytes.value_or(0)));
      }
      cells.push_back(std::move(line));
    }
  }
  return format_table({"TEAM", "SUBJECT", "ACTIONS", "FAILED", "COMMANDS", "SECONDS", "CREATES",
                       "SANDBOX-SECONDS", "IN", "OUT"},
                      cells);
}

void add_given(std::string& query, std::string_view name, const std::string& value) {
  if (!value.empty()) {
    add_parameter(query, name, value);
  }
}

void add_scope(std::string& query, const TeamScope& scope) {
  add_given(query, "team", scope.team);
  if (scope.all_teams) {
    add_parameter(query, "scope", "all");
  }
}

std::string filter_query(const AuditFilterOptions& filter) {
  std::string query;
  add_given(query, "event", filter.event);
  add_given(query, "caller", filter.caller);
  add_given(query, "sandbox", filter.sandbox);
  add_given(query, "from", filter.from);
  add_given(query, "until", filter.until);
  add_given(query, "result", filter.result);
  add_given(query, "text", filter.text);
  add_scope(query, filter.scope);
  return query;
}

// Cuts what comes into lines and gives each, without its newline, to the verifier.
class LineFeed {
 public:
  explicit LineFeed(wire::AuditVerifier& verifier) : verifier_(verifier) {}
  Result<void> add(std::string_view bytes) {
    while (!bytes.empty()) {
      const size_t newline = bytes.find('\n');
      rest_ += bytes.substr(0, newline);
      if (rest_.size() > wire::kAuditLineBytesMax) {
        return fail(ErrorCode::malformed, "this is no audit log: a line has no end");
      }
      if (newline == std::string_view::npos) {
        return {};
      }
      RETURN_IF_ERROR(verifier_.add(rest_));
      rest_.clear();
      bytes.remove_prefix(newline + 1);
    }
    return {};
  }
  // A last line without a newline is not whole.
  [[nodiscard]] Result<void> finish() const {
    return rest_.empty() ? Result<void>()
                         : fail(ErrorCode::malformed, "the last line is not whole");
  }

 private:
  wire::AuditVerifier& verifier_;
  std::string rest_;
};

Result<void> feed_file(const std::string& file, LineFeed& feed) {
  const bool is_input = file == "-";
  const base::Fd opened(is_input ? -1 : ::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (!is_input && !opened) {
    return base::fail_errno(errno, "open ", file);
  }
  constexpr size_t kPieceBytes = 65'536;
  std::array<char, kPieceBytes> piece;
  for (;;) {
    const ssize_t size = ::read(is_input ? STDIN_FILENO : opened.get(), piece.data(), piece.size());
    if (size < 0) {
      return base::fail_errno(errno, "read ", file);
    }
    if (size == 0) {
      return {};
    }
    RETURN_IF_ERROR(feed.add(std::string_view(piece.data(), static_cast<size_t>(size))));
  }
}

Result<wire::AuditVerifier::Report> verify(Context& context, const AuditVerifyOptions& options) {
  std::optional<model::AuditHead> noted;
  if (!options.noted.empty()) {
    ASSIGN_OR_RETURN(noted, wire::parse_audit_head(options.noted));
  }
  wire::AuditVerifier verifier(std::move(noted));
  LineFeed feed(verifier);
  if (!options.file.empty()) {
    RETURN_IF_ERROR(feed_file(options.file, feed));
  } else {
    const HttpRequest request{.target = "/audit-logs?scope=all&format=jsonl"};
    RETURN_IF_ERROR(context.api.call(
        request, Repeat::no,
        [&feed](const HttpResponse&, std::string_view bytes) { return feed.add(bytes); }));
  }
  RETURN_IF_ERROR(feed.finish());
  return verifier.finish();
}

Result<int> sandbox_activity(Context& context, const std::string& id) {
  ASSIGN_OR_RETURN(const auto answer, context.api.get_object(sandbox_target(id, "/activity")));
  RETURN_IF_ERROR(
      print_value(context, answer,
                  format_pairs({{"Last activity", field_text(answer, "last_activity_at")},
                                {"Lease expires", field_text(answer, "lease_expires_at")},
                                {"Commands", field_text(answer, "running_commands")},
                                {"Sessions", field_text(answer, "sessions")}})));
  return 0;
}

}  // namespace

Result<int> activity(Context& context, const ActivityOptions& options) {
  if (!options.id.empty()) {
    return sandbox_activity(context, options.id);
  }
  std::string query;
  add_given(query, "from", options.from);
  add_given(query, "to", options.to);
  if (options.step_sec) {
    add_parameter(query, "step", base::cat(*options.step_sec));
  }
  add_scope(query, options.scope);
  ASSIGN_OR_RETURN(const auto answer,
                   context.api.get_object(base::cat("/activity", query.empty() ? "" : "?", query)));
  RETURN_IF_ERROR(print_value(context, answer, activity_table(answer)));
  return 0;
}

Result<int> audit(Context& context, const AuditOptions& options) {
  AuditFilterOptions filter = options.filter;
  if (!options.id.empty()) {
    filter.sandbox = options.id;
  }
  ASSIGN_OR_RETURN(const auto rows, context.api.get_list("/audit-logs", filter_query(filter),
                                                         static_cast<size_t>(options.limit)));
  if (rows.empty() && !options.id.empty()) {
    // Nothing was done to it that the filters let through, or it never was.
    RETURN_IF_ERROR(context.api.get_object(
        base::cat("/sandboxes/", base::percent_encode(options.id), "/audit-logs?limit=1")));
  }
  RETURN_IF_ERROR(print_value(context, rows, audit_table(rows)));
  return 0;
}

Result<int> audit_export(Context& context, const AuditExportOptions& options) {
  const bool to_file = !options.file.empty() && options.file != "-";
  const base::Fd file(
      to_file ? ::open(options.file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kExportMode)
              : -1);
  if (to_file && !file) {
    return base::fail_errno(errno, "open ", options.file);
  }
  std::string query = filter_query(options.filter);
  add_parameter(query, "format", "jsonl");
  Progress progress(context.console, context.clock);
  int64_t received = 0;
  const auto sink = [&](const HttpResponse&, std::string_view bytes) -> Result<void> {
    received += static_cast<int64_t>(bytes.size());
    if (to_file) {
      progress.show(base::cat("exporting, ", format_bytes(received)));
      return base::sys::write_all(file.get(), bytes);
    }
    return context.console.write_out(bytes);
  };
  const HttpRequest request{.target = "/audit-logs?" + query};
  RETURN_IF_ERROR(context.api.call(request, Repeat::no, sink));
  return 0;
}

Result<int> audit_verify(Context& context, const AuditVerifyOptions& options) {
  const auto report = verify(context, options);
  if (!report && report.error().code == ErrorCode::conflict) {
    context.console.note(base::cat("the audit log is broken: ", report.error().message));
    return kExitBroken;
  }
  if (!report) {
    return std::unexpected(report.error());
  }
  const Object answer{{"rows", report->rows},
                      {"first_id", report->first_id},
                      {"older_rows", report->older_rows},
                      {"head", wire::audit_head_text(report->head)},
                      {"noted_is_cut", report->noted_is_cut}};
  RETURN_IF_ERROR(print_value(context, answer, wire::audit_report(*report) + "\n"));
  return 0;
}

Result<int> audit_head(Context& context, const AuditHeadOptions& /*options*/) {
  ASSIGN_OR_RETURN(const auto answer, context.api.get_object("/audit-logs/head"));
  const std::string text = base::cat(field_text(answer, "id"), ":", field_text(answer, "hash"));
  RETURN_IF_ERROR(print_value(context, answer, escape_for_terminal(text) + "\n"));
  return 0;
}

}  // namespace cli
