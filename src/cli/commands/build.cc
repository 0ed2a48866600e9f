// build: sends a folder (or one Dockerfile, or a tar that comes by standard input) to be built,
// shows the log while it runs, prints the image's name. Interrupted, it cancels the build.
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/sys.h"
#include "cli/build_secrets.h"
#include "cli/context.h"
#include "cli/copy_plan.h"
#include "cli/folder_reader.h"
#include "cli/sandbox_view.h"

namespace cli {

using base::ErrorCode;
using base::fail;
using wire::json::Object;

namespace {

// builder/build.go takes it out of the context again.
constexpr auto kInlineName = ".sandbox.Dockerfile";
constexpr size_t kDockerfileBytesMax = size_t{1} << 20;
// A builder that starts, and a context that is unpacked, before the gateway answers.
constexpr int kStartSilenceSeconds = 300;
constexpr int kRetryMilliseconds = 500;
constexpr int kWaitSeconds = 30;

std::string build_target(std::string_view id, std::string_view suffix = "") {
  return base::cat("/builds/", encode_segment(id), suffix);
}

std::string start_target(const BuildOptions& options) {
  std::string query;
  const auto add = [&query](std::string_view key, const std::string& value) {
    if (!value.empty()) {
      add_parameter(query, key, value);
    }
  };
  add("dockerfile", options.dockerfile_text.empty() ? options.dockerfile : kInlineName);
  add("target", options.target);
  add("team", options.team);
  for (const std::string& argument : options.arguments) {
    add("arg", argument);
  }
  return query.empty() ? "/builds" : base::cat("/builds?", query);
}

// What is sent, and what must live as long as the request.
struct BuildSource {
  HttpRequest request;
  std::unique_ptr<FolderReader> folder;
};

Result<BuildSource> open_source(const Context& context, const BuildOptions& options) {
  BuildSource source{.request = {.method = "POST",
                                 .target = start_target(options),
                                 .headers = {{"Content-Type", "application/x-tar"}},
                                 .silence_seconds_max = kStartSilenceSeconds},
                     .folder = nullptr};
  HttpRequest& request = source.request;
  ASSIGN_OR_RETURN(const auto secrets, build_secret_headers(options.secrets, options.keys));
  request.headers.insert(request.headers.end(), secrets.begin(), secrets.end());
  struct stat status{};
  if (options.folder == "-") {
    request.body_fd = STDIN_FILENO;
    return source;
  }
  if (::stat(options.folder.c_str(), &status) != 0) {
    return base::fail_errno(errno, "look at ", options.folder);
  }
  if (!S_ISDIR(status.st_mode)) {
    ASSIGN_OR_RETURN(request.body, base::sys::read_file(options.folder, kDockerfileBytesMax));
    request.headers.front().second = "text/plain; charset=utf-8";
    return source;
  }
  const auto packing = is_loopback_url(context.http.url()) ? Packing::plain : Packing::zstd;
  ASSIGN_OR_RETURN(source.folder, FolderReader::open(options.folder, packing));
  if (!options.dockerfile_text.empty()) {
    RETURN_IF_ERROR(source.folder->add_file(kInlineName, options.dockerfile_text));
  }
  request.body_source = [reader = source.folder.get()](std::span<char> buffer) {
    return reader->read(buffer);
  };
  return source;
}

Result<Object> start_build(Context& context, const BuildOptions& options) {
  ASSIGN_OR_RETURN(BuildSource source, open_source(context, options));
  Progress progress(context.console, context.clock);
  ASSIGN_OR_RETURN(
      const auto answer,
      context.api.call(source.request, Repeat::no, {}, [&](const TransferCounts& counts) {
        progress.show(base::cat("sending the context, ", describe_bytes(counts.sent, 0)));
      }));
  return wire::json::parse_object(answer.body);
}

// What a build writes is anybody's: no control character but the ends of lines reaches a terminal.
std::string without_controls(std::string_view text) {
  std::string out(text);
  std::erase_if(out, [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return (byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7f;
  });
  return out;
}

// The log to standard error, from where it was read to.
Result<void> show_log(Context& context, const std::string& id, uint64_t& offset) {
  const HttpRequest request{.target =
                                build_target(id, base::cat("/logs?follow=true&offset=", offset))};
  const auto sink = [&](const HttpResponse&, std::string_view bytes) -> Result<void> {
    offset += bytes.size();
    return base::sys::write_all(STDERR_FILENO, without_controls(bytes));
  };
  RETURN_IF_ERROR(context.api.call(request, Repeat::no, sink));
  return {};
}

bool has_ended(const Object& build) {
  const std::string state = field_text(build, "state");
  return state != "queued" && state != "running";
}

Result<Object> follow_build(Context& context, const BuildOptions& options, const std::string& id) {
  uint64_t offset = 0;
  for (;;) {
    if (!options.quiet) {
      // One that is silent for long breaks off; what the build is, is asked below.
      const auto shown = show_log(context, id, offset);
      if (!shown && !is_passing(shown.error())) {
        return std::unexpected(shown.error());
      }
    }
    ASSIGN_OR_RETURN(
        auto build,
        context.api.get_object(build_target(id, base::cat("?wait=", kWaitSeconds)), kWaitSeconds));
    if (has_ended(build)) {
      return build;
    }
    RETURN_IF_ERROR(context.interrupt.sleep_ms(kRetryMilliseconds));
  }
}

Result<Object> finish_started(Context& context, const BuildOptions& options, Object build) {
  const std::string id = field_text(build, "id");
  if (!has_ended(build)) {
    auto ended = follow_build(context, options, id);
    if (!ended) {
      if (ended.error().code == ErrorCode::cancelled) {
        HttpRequest cancel{.method = "DELETE", .target = build_target(id), .ignore_signals = true};
        [[maybe_unused]] const auto cancelled = context.api.call(cancel, Repeat::no);
      }
      return std::unexpected(ended.error());
    }
    build = std::move(*ended);
  }
  if (field_text(build, "state") != "succeeded") {
    const std::string message = field_text(build, "message");
    return fail(ErrorCode::unavailable, "build ", id, " ", field_text(build, "state"), ": ",
                field_text(build, "reason"), message.empty() ? "" : ": ", message);
  }
  return build;
}

}  // namespace

Result<Object> finish_build(Context& context, const BuildOptions& options) {
  ASSIGN_OR_RETURN(auto build, start_build(context, options));
  return finish_started(context, options, std::move(build));
}

Result<int> build(Context& context, const BuildOptions& options) {
  ASSIGN_OR_RETURN(auto build, start_build(context, options));
  if (!options.wait) {
    const std::string id = field_text(build, "id");
    RETURN_IF_ERROR(print_value(context, build, escape_for_terminal(id) + "\n"));
    return 0;
  }
  ASSIGN_OR_RETURN(build, finish_started(context, options, std::move(build)));
  RETURN_IF_ERROR(
      print_value(context, build, escape_for_terminal(field_text(build, "image")) + "\n"));
  return 0;
}

}  // namespace cli
