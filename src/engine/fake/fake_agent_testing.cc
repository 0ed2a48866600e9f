#include "engine/fake/fake_agent_testing.h"

#include <sys/socket.h>

#include <algorithm>

namespace engine {
namespace {

using base::ErrorCode;
using base::Result;
using net::Deadline;
using net::EventLoop;
using net::Task;
using wire::http::HeadBuilder;
using wire::json::Object;
using wire::json::Reader;

constexpr base::Milliseconds kPatience{10'000};
constexpr size_t kRunBodyMax = 12 * 1024 * 1024;
constexpr size_t kFileMax = 64 * 1024 * 1024;

struct Answer {
  int status = 200;
  std::string body;
  std::string type = "application/json";
};

Answer error_answer(const base::Error& error) {
  return {.status = base::http_status(error.code), .body = wire::json::error_body(error, "")};
}

Task<Result<void>> write_answer(net::Stream& stream, Answer answer, bool with_body) {
  net::HttpWriter writer(stream, kPatience);
  std::string head = HeadBuilder::response(answer.status)
                         .add("content-type", answer.type)
                         .add_length(answer.body.size())
                         .finish();
  auto written =
      co_await writer.write_message(std::move(head), with_body ? answer.body : std::string());
  co_return written;
}

struct Outcome {
  int exit_code = 0;
  std::string out;
};

// What ends at once; sleep is not among it.
Outcome execute(const std::vector<std::string>& argv, const std::string& input,
                const std::map<std::string, std::string>& environment) {
  const std::string& name = argv[0];
  if (name == "true") {
    return {};
  }
  if (name == "false") {
    return {.exit_code = 1};
  }
  if (name == "echo") {
    Outcome outcome;
    for (size_t i = 1; i < argv.size(); ++i) {
      outcome.out += i > 1 ? " " : "";
      outcome.out += argv[i];
    }
    outcome.out += "\n";
    return outcome;
  }
  if (name == "cat") {
    return {.out = input};
  }
  if (name == "pwd") {
    return {.out = "/\n"};
  }
  if (name == "env") {
    Outcome outcome;
    for (const auto& [key, value] : environment) {
      outcome.out += base::cat(key, "=", value, "\n");
    }
    return outcome;
  }
  if (name == "flood" && argv.size() == 2) {
    return {.out = std::string(base::parse_number<size_t>(argv[1]).value_or(0), 'x')};
  }
  constexpr std::string_view kExit = "exit ";
  if (name == "sh" && argv.size() == 3 && argv[2].starts_with(kExit)) {
    return {.exit_code = base::parse_number<int>(argv[2].substr(kExit.size())).value_or(2)};
  }
  return {.exit_code = 127};
}

}  // namespace

void FakeAgent::serve(base::Fd socket) { group_.spawn(serve_connection(std::move(socket))); }

Task<void> FakeAgent::close() {
  group_.cancel();
  co_await group_.join();
}

Task<void> FakeAgent::serve_connection(base::Fd socket) {
  net::Stream stream(loop_, std::move(socket));
  net::HttpReader reader(stream);
  for (;;) {
    auto request = co_await reader.read_request(Deadline::never(), kPatience);
    if (!request || !*request) {
      co_return;
    }
    const bool keep = (*request)->keep_alive;
    const auto answered = co_await answer(stream, reader, std::move(**request));
    if (!answered || !keep || !reader.body_finished()) {
      co_return;
    }
  }
}

Task<Result<void>> FakeAgent::answer(net::Stream& stream, net::HttpReader& reader,
                                     wire::http::Request request) {
  if (request.method == "GET" && request.path == "/healthz") {
    auto written = co_await write_answer(stream, {.body = R"({"version":"fake"})"}, true);
    co_return written;
  }
  if (request.method == "GET" && request.path == "/activity") {
    Answer answer{.body = base::cat(R"({"running_commands":)", runs_now_, R"(,"sessions":0})")};
    auto written = co_await write_answer(stream, std::move(answer), true);
    co_return written;
  }
  if (request.method == "POST" && request.path == "/run") {
    auto answered = co_await answer_run(stream, reader);
    co_return answered;
  }
  if (request.path == "/files") {
    auto answered = co_await answer_files(stream, reader, std::move(request));
    co_return answered;
  }
  auto error = error_answer({.code = ErrorCode::not_found, .message = "no such route"});
  auto written = co_await write_answer(stream, std::move(error), true);
  co_return written;
}

Task<Result<void>> FakeAgent::answer_run(net::Stream& stream, net::HttpReader& reader) {
  CO_ASSIGN_OR_RETURN(const std::string body,
                      co_await reader.read_whole_body(kRunBodyMax, kPatience));
  const auto parsed = wire::json::parse_object(body);
  const Object object = parsed ? *parsed : Object{};
  Reader fields(object);
  const auto argv = fields.optional<std::vector<std::string>>("argv");
  const auto command = fields.optional<std::string>("command");
  const auto input = fields.optional<std::string>("stdin");
  const auto given = fields.optional<std::map<std::string, std::string>>("env");
  if (!parsed || !argv || !command || !input || !given || (!*argv && !*command) ||
      (*argv && (*argv)->empty())) {
    auto error = error_answer({.code = ErrorCode::invalid_field, .message = "argv is wrong"});
    auto written = co_await write_answer(stream, std::move(error), true);
    co_return written;
  }
  const std::vector<std::string> words =
      *argv ? **argv : std::vector<std::string>{"sh", "-c", **command};
  std::map<std::string, std::string> environment = container_.environment;
  for (const auto& [key, value] : given->value_or(std::map<std::string, std::string>{})) {
    environment[key] = value;
  }
  ++runs_;
  if (words[0] == "sleep") {
    // The client says nothing while it waits: a readable stream is one that has ended.
    const int64_t seconds =
        words.size() > 1 ? base::parse_number<int64_t>(words[1]).value_or(0) : 0;
    ++runs_now_;
    const auto waited =
        co_await stream.wait_readable(Deadline::after(std::chrono::seconds(seconds)));
    --runs_now_;
    if (waited || waited.error().code == ErrorCode::cancelled) {
      ++cancelled_runs_;
      co_return base::fail(ErrorCode::connection_closed, "the client went away");
    }
  }
  const Outcome outcome =
      words[0] == "sleep" ? Outcome{} : execute(words, input->value_or(std::string()), environment);
  Object answer{{"exit_code", outcome.exit_code},
                {"signal", nullptr},
                {"timed_out", false},
                {"oom_killed", false},
                {"stdout", outcome.out},
                {"stderr", ""},
                {"truncated", false},
                {"stdout_dropped_bytes", 0},
                {"stderr_dropped_bytes", 0},
                {"duration_ms", 0}};
  auto written = co_await write_answer(stream, {.body = wire::json::serialize(answer)}, true);
  co_return written;
}

Task<Result<void>> FakeAgent::answer_files(net::Stream& stream, net::HttpReader& reader,
                                           wire::http::Request request) {
  const auto path = request.parameter("path");
  Answer answer;
  if (!path || !*path) {
    answer = error_answer({.code = ErrorCode::path_invalid, .message = "path is missing"});
  } else if (request.method == "PUT") {
    if (request.expect_continue) {
      CO_RETURN_IF_ERROR(co_await stream.write_all("HTTP/1.1 100 Continue\r\n\r\n", kPatience));
    }
    CO_ASSIGN_OR_RETURN(std::string bytes, co_await reader.read_whole_body(kFileMax, kPatience));
    answer.body = wire::json::serialize(
        Object{{"path", **path}, {"size", bytes.size()}, {"sha256", std::string(64, '0')}});
    files_[**path] = std::move(bytes);
  } else if (const auto found = files_.find(**path); found != files_.end()) {
    answer = {.body = found->second, .type = "application/octet-stream"};
  } else {
    answer = error_answer({.code = ErrorCode::file_not_found, .message = "no such file"});
  }
  auto written = co_await write_answer(stream, std::move(answer), request.method != "HEAD");
  co_return written;
}

}  // namespace engine
