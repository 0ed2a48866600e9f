#include "cli/remote_command.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>

#include "cli/variables.h"

namespace cli {

using base::ErrorCode;
using base::fail;
using wire::json::Object;

namespace {

constexpr size_t kReadBytes = 64UL * 1024;

Result<std::string> read_input(Context& context) {
  std::string input;
  std::string piece(kReadBytes, '\0');
  while (true) {
    RETURN_IF_ERROR(context.interrupt.wait_for(STDIN_FILENO, POLLIN));
    const ssize_t got = ::read(STDIN_FILENO, piece.data(), piece.size());
    if (got == 0 || (got < 0 && errno == EBADF)) {  // closed by whoever started us: no input
      return input;
    }
    if (got < 0 && errno != EINTR && errno != EAGAIN) {
      return base::fail_errno(errno, "read standard input");
    }
    input.append(piece, 0, got > 0 ? static_cast<size_t>(got) : 0);
    if (input.size() > kInputBytesMax) {
      return fail(ErrorCode::body_too_large, "standard input is longer than ",
                  format_bytes(kInputBytesMax), ": copy it with 'sandbox cp' first");
    }
  }
}

Result<Object> run_body(Context& context, const CommandOptions& options) {
  Object body;
  wire::json::Array argv;
  for (const auto& word : options.argv) {
    argv.emplace_back(word);
  }
  body["argv"] = std::move(argv);
  body["encoding"] = "base64";
  if (!options.env.empty() || !options.env_files.empty()) {
    ASSIGN_OR_RETURN(body["env"], read_variables(options.env, options.env_files));
  }
  if (!options.cwd.empty()) {
    body["cwd"] = options.cwd;
  }
  if (!options.user.empty()) {
    body["user"] = options.user;
  }
  if (options.timeout_sec) {
    body["timeout_sec"] = *options.timeout_sec;
  }
  // A person at a terminal is not made to type an end of file.
  if (options.read_input && ::isatty(STDIN_FILENO) != 1) {
    ASSIGN_OR_RETURN(const auto input, read_input(context));
    if (!input.empty()) {
      body["stdin"] = base::base64(input);
      body["stdin_encoding"] = "base64";
    }
  }
  return body;
}

Result<std::string> output_of(const Object& answer, std::string_view name) {
  auto bytes = base::decode_base64(field_text(answer, name));
  if (!bytes) {
    return fail(ErrorCode::internal, "the answer's ", name, " is not base64");
  }
  return std::move(*bytes);
}

void report(Context& context, const Object& answer) {
  const auto dropped = [&](std::string_view stream) {
    const std::string bytes = field_text(answer, base::cat(stream, "_dropped_bytes"));
    if (!bytes.empty() && bytes != "0") {
      context.console.note(base::cat(stream, " was too long: ", bytes,
                                     " bytes are missing after its first quarter"));
    }
  };
  dropped("stdout");
  dropped("stderr");
  if (field_text(answer, "oom_killed") == "true") {
    context.console.note("the command was killed: the sandbox is out of memory");
  }
  if (field_text(answer, "timed_out") == "true") {
    context.console.note("the command timed out");
  }
}

// A 200 head that was already sent when the sandbox ended carries the error in the body.
Result<void> check_late_error(const Object& answer) {
  const auto* error = answer.if_contains("error");
  if (error == nullptr || !error->is_object()) {
    return {};
  }
  const HttpResponse as_error{.status = 502, .body = wire::json::serialize(answer)};
  return std::unexpected(parse_error_answer(as_error));
}

}  // namespace

int exit_code_of(const Object& answer) {
  if (field_text(answer, "timed_out") == "true") {
    return kExitTimedOut;
  }
  constexpr int kExitCodeMax = 255;
  const auto code = base::parse_number<int>(field_text(answer, "exit_code"));
  return code && *code >= 0 && *code <= kExitCodeMax ? *code : kExitOwnError;
}

Result<int> run_command(Context& context, const std::string& id, const CommandOptions& options) {
  ASSIGN_OR_RETURN(const auto body, run_body(context, options));
  HttpRequest request{.method = "POST",
                      .target = sandbox_target(id, "/run"),
                      .headers = {{"Content-Type", "application/json"}},
                      .body = wire::json::serialize(body),
                      .fresh_connection = true};
  Result<HttpResponse> response;
  {
    Progress progress(context.console, context.clock);
    response = context.api.call(request, Repeat::no, {}, [&](const TransferCounts& counts) {
      progress.show(counts.received > 0 && counts.receive_total > 0
                        ? base::cat("receiving output, ",
                                    describe_bytes(counts.received, counts.receive_total))
                        : base::cat("the command runs, ", progress.elapsed_seconds(), " s"));
    });
  }
  if (!response) {
    return std::unexpected(std::move(response).error());
  }
  ASSIGN_OR_RETURN(const auto answer, wire::json::parse_object(response->body));
  RETURN_IF_ERROR(check_late_error(answer));
  ASSIGN_OR_RETURN(const auto out, output_of(answer, "stdout"));
  ASSIGN_OR_RETURN(const auto errors, output_of(answer, "stderr"));
  RETURN_IF_ERROR(context.console.write_out(out));
  RETURN_IF_ERROR(context.console.write_error(errors));
  report(context, answer);
  return exit_code_of(answer);
}

}  // namespace cli
