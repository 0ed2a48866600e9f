#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/sys.h"
#include "cli/context.h"
#include "cli/copy_plan.h"
#include "cli/event_stream.h"
#include "cli/sandbox_view.h"

namespace cli {

using base::ErrorCode;
using base::fail;
using wire::json::Object;
using wire::json::Value;

namespace {

constexpr int kFailuresInARowMax = 6;
constexpr int kPollMilliseconds = 300;
// An import is unpacked before the gateway answers.
constexpr int kImportSilenceSeconds = 900;

std::string image_target(std::string_view name) {
  return base::cat("/images/", encode_segment(name));
}

std::string describe_pull(const std::string& reference, const Object& pull) {
  const Value* value = pull.if_contains("progress");
  std::string text = base::cat("pulling ", reference);
  if (value != nullptr && value->is_object()) {
    const Object& progress = value->get_object();
    const auto number = [&](std::string_view name) {
      return base::parse_number<int64_t>(field_text(progress, name)).value_or(0);
    };
    text += base::cat(", ", describe_bytes(number("done_bytes"), number("total_bytes")));
    if (number("layers") > 0) {
      text += base::cat(", layer ", number("layers_done"), " of ", number("layers"));
    }
  }
  return text;
}

// Reads one stream of the pull's progress; `last` is the newest state seen.
Result<void> follow_pull(Context& context, const std::string& id, Object& last,
                         const std::function<void(const Object&)>& show) {
  EventStreamDecoder decoder;
  const HttpRequest request{
      .target = base::cat("/images/pulls/", encode_segment(id), "?follow=true"),
      .headers = {{"Accept", "text/event-stream"}}};
  const auto handler = [&](const StreamEvent& event) -> Result<void> {
    ASSIGN_OR_RETURN(last, wire::json::parse_object(event.data));
    show(last);
    return {};
  };
  const auto sink = [&](const HttpResponse&, std::string_view bytes) {
    return decoder.feed(bytes, handler);
  };
  RETURN_IF_ERROR(context.api.call(request, Repeat::yes, sink));
  return {};
}

Result<Object> wait_for_pull(Context& context, const std::string& reference, Object pull) {
  Progress progress(context.console, context.clock);
  const auto show = [&](const Object& state) { progress.show(describe_pull(reference, state)); };
  const std::string id = field_text(pull, "id");
  int failures = 0;
  while (field_text(pull, "state") == "queued" || field_text(pull, "state") == "running") {
    const auto outcome = follow_pull(context, id, pull, show);
    if (outcome) {
      failures = 0;
    } else if (outcome.error().code != ErrorCode::connection_closed ||
               ++failures >= kFailuresInARowMax) {
      return std::unexpected(outcome.error());
    }
    RETURN_IF_ERROR(context.interrupt.sleep_ms(kPollMilliseconds));
  }
  return pull;
}

}  // namespace

Result<int> image_pull(Context& context, const ImagePullOptions& options) {
  const HttpRequest request{.method = "POST",
                            .target = "/images",
                            .headers = {{"Content-Type", "application/json"}},
                            .body = wire::json::serialize(Object{{"pull", options.reference}})};
  // Pulls of one image are shared, so asking twice starts nothing twice.
  ASSIGN_OR_RETURN(const auto answer, context.api.call_json(request, Repeat::yes));
  if (!answer.is_object()) {
    return fail(ErrorCode::internal, "the answer to the pull is not an object");
  }
  ASSIGN_OR_RETURN(const auto pull, wait_for_pull(context, options.reference, answer.get_object()));
  if (field_text(pull, "state") != "succeeded") {
    const std::string reason = field_text(pull, "reason");
    return fail(ErrorCode::unavailable, "pull of ", options.reference, ": ", reason,
                reason.empty() ? "" : ": ", field_text(pull, "message"));
  }
  const std::string name = field_text(pull, "name");
  const std::string& shown = name.empty() ? options.reference : name;
  RETURN_IF_ERROR(print_value(context, pull, escape_for_terminal(shown) + "\n"));
  return 0;
}

Result<int> image_list(Context& context, const ImageListOptions& options) {
  ASSIGN_OR_RETURN(const auto items, context.api.get_list("/images", "", SIZE_MAX, 0));
  if (options.quiet) {
    RETURN_IF_ERROR(context.console.write_out(field_lines(items, "name")));
    return 0;
  }
  RETURN_IF_ERROR(print_value(context, items, image_table(items, context.clock.wall())));
  return 0;
}

Result<int> image_remove(Context& context, const ImageRemoveOptions& options) {
  int exit_code = 0;
  for (const auto& name : options.names) {
    const auto removed = context.api.remove(image_target(name), 0);
    if (removed) {
      RETURN_IF_ERROR(context.console.write_out(escape_for_terminal(name) + "\n"));
      continue;
    }
    if (removed.error().code == ErrorCode::cancelled) {
      return std::unexpected(removed.error());
    }
    context.console.note(
        base::cat("error: ", base::to_string(removed.error().code), ": ", removed.error().message));
    exit_code = kExitOwnError;
  }
  return exit_code;
}

Result<int> image_import(Context& context, const ImageImportOptions& options) {
  HttpRequest request{.method = "POST",
                      .target = "/images?name=" + encode_segment(options.name),
                      .headers = {{"Content-Type", "application/x-tar"}},
                      .body_fd = STDIN_FILENO,
                      .silence_seconds_max = kImportSilenceSeconds};
  base::Fd file;
  if (options.file != "-") {
    ASSIGN_OR_RETURN(file, base::sys::open(options.file, O_RDONLY));
    struct stat status{};
    if (::fstat(file.get(), &status) != 0) {
      return base::fail_errno(errno, "look at ", options.file);
    }
    if (S_ISDIR(status.st_mode)) {
      return base::fail_field("file", options.file,
                              " is a folder: pipe a tar of it, as in: tar -C DIR -c . | sandbox "
                              "image import - NAME");
    }
    request.body_fd = file.get();
    if (S_ISREG(status.st_mode)) {
      request.body_size = static_cast<uint64_t>(status.st_size);
    }
  }
  Result<HttpResponse> response;
  {
    Progress progress(context.console, context.clock);
    response = context.api.call(request, Repeat::no, {}, [&](const TransferCounts& counts) {
      const bool sent_all = counts.send_total > 0 && counts.sent >= counts.send_total;
      progress.show(
          sent_all ? base::cat("unpacking ", options.name, ", ", progress.elapsed_seconds(), " s")
                   : base::cat("uploading ", options.name, ", ",
                               describe_bytes(counts.sent, counts.send_total)));
    });
  }
  if (!response) {
    return std::unexpected(std::move(response).error());
  }
  ASSIGN_OR_RETURN(const auto image, wire::json::parse_object(response->body));
  RETURN_IF_ERROR(
      print_value(context, image, escape_for_terminal(field_text(image, "name")) + "\n"));
  return 0;
}

Result<int> image_gc(Context& context, const ImageGcOptions&) {
  const HttpRequest request{.method = "POST", .target = "/images/gc"};
  ASSIGN_OR_RETURN(const auto answer, context.api.call_json(request, Repeat::yes));
  if (!answer.is_object()) {
    return fail(ErrorCode::internal, "the answer to the collection is not an object");
  }
  const Object& result = answer.get_object();
  std::string text;
  if (const Value* removed = result.if_contains("removed"); removed && removed->is_array()) {
    for (const auto& name : removed->get_array()) {
      text +=
          name.is_string() ? escape_for_terminal(std::string_view(name.get_string())) + "\n" : "";
    }
  }
  const auto freed = base::parse_number<int64_t>(field_text(result, "freed_bytes"));
  text += base::cat("freed ", format_bytes(freed.value_or(0)), "\n");
  RETURN_IF_ERROR(print_value(context, result, text));
  return 0;
}

}  // namespace cli
