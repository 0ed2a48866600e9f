#include "engine/fake/fake_agent_testing.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>

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
constexpr size_t kRunBodyMax = size_t{12} * 1024 * 1024;
constexpr size_t kFileMax = size_t{64} * 1024 * 1024;

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
  if (request.method == "POST" && request.path == "/exec") {
    auto answered = co_await answer_exec(stream, reader);
    co_return answered;
  }
  if (request.method == "POST" && request.path == "/stream") {
    auto answered = co_await answer_stream(stream, reader);
    co_return answered;
  }
  if (request.path.starts_with("/sessions") || request.path == "/terminal") {
    auto answered = co_await answer_sessions(stream, reader, std::move(request));
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

Task<Result<void>> FakeAgent::answer_exec(net::Stream& stream, net::HttpReader& reader) {
  CO_ASSIGN_OR_RETURN(const std::string body, co_await reader.read_whole_body(kFileMax, kPatience));
  const size_t newline = body.find('\n');
  const auto line = wire::json::parse_object(body.substr(0, newline));
  const Object object = line ? *line : Object{};
  const auto argv = Reader(object).optional<std::vector<std::string>>("argv");
  if (newline == std::string::npos || !argv || !*argv) {
    auto error = error_answer({.code = ErrorCode::invalid_field, .message = "argv is wrong"});
    co_return co_await write_answer(stream, std::move(error), true);
  }
  ++runs_;
  if ((*argv)->front() == "sleep") {
    CO_RETURN_IF_ERROR(co_await stream.wait_readable(Deadline::after(kPatience)));
    ++cancelled_runs_;
    co_return base::fail(ErrorCode::connection_closed, "the client went away");
  }
  const Outcome outcome = execute(**argv, body.substr(newline + 1), container_.environment);
  auto head = HeadBuilder::response(200);
  head.add("x-stdout-length", base::cat(outcome.out.size())).add("x-stderr-length", "0");
  head.add("x-return-code", base::cat(outcome.exit_code)).add("x-timed-out", "false");
  head.add("x-oom-killed", "false").add("x-truncated", "false").add("x-duration-ms", "1");
  head.add("set-cookie", "no=1").add_length(outcome.out.size());
  const std::string text = head.finish();
  co_return co_await stream.write_all(text, outcome.out, kPatience);
}

Task<Result<void>> FakeAgent::answer_stream(net::Stream& stream, net::HttpReader& reader) {
  CO_ASSIGN_OR_RETURN(const std::string body,
                      co_await reader.read_whole_body(kRunBodyMax, kPatience));
  CO_ASSIGN_OR_RETURN(const auto object, wire::json::parse_object(body));
  const auto command = Reader(object).required<std::string>("command");
  if (!command) {
    auto error = error_answer(command.error());
    co_return co_await write_answer(stream, std::move(error), true);
  }
  ++runs_;
  std::vector<std::string> words;
  for (const std::string_view word : base::split(*command, ' ')) {
    words.emplace_back(word);
  }
  if (words.front() == "exit") {
    words = {"sh", "-c", *command};
  }
  net::HttpWriter writer(stream, kPatience);
  auto head = HeadBuilder::response(200);
  head.add("content-type", "application/x-ndjson").add_chunked();
  CO_RETURN_IF_ERROR(co_await writer.write_head(head.finish()));
  if (words.front() == "break") {
    CO_RETURN_IF_ERROR(co_await writer.write_chunk(R"({"type":"stdout","stream":"std)"));
    co_return base::fail(ErrorCode::connection_closed, "as asked for");
  }
  if (words.front() == "sleep") {
    CO_RETURN_IF_ERROR(
        co_await writer.write_chunk("{\"type\":\"keepAlive\",\"keepAlive\":true}\n"));
    CO_RETURN_IF_ERROR(co_await stream.wait_readable(Deadline::after(kPatience)));
    ++cancelled_runs_;
    co_return base::fail(ErrorCode::connection_closed, "the client went away");
  }
  const Outcome outcome = execute(words, "", container_.environment);
  const Object out{{"type", "stdout"}, {"stream", "stdout"}, {"data", outcome.out}};
  CO_RETURN_IF_ERROR(co_await writer.write_chunk(wire::json::serialize(out) + "\n"));
  CO_RETURN_IF_ERROR(co_await writer.write_chunk(
      base::cat(R"({"type":"done","done":true,"exitCode":)", outcome.exit_code,
                R"(,"signal":null,"timedOut":false,"oomKilled":false,"durationMs":1})", "\n")));
  co_return co_await writer.finish_chunks();
}

Task<Result<void>> FakeAgent::answer_sessions(net::Stream& stream, net::HttpReader& reader,
                                              wire::http::Request request) {
  if (request.find("upgrade") != nullptr) {
    ++streams_;
    CO_RETURN_IF_ERROR(co_await stream.write_all(
        "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\n\r\n", kPatience));
    std::string bytes = reader.take_buffered();
    std::array<char, 4096> buffer;
    for (;;) {
      CO_RETURN_IF_ERROR(co_await stream.write_all(bytes, kPatience));
      const auto size = co_await stream.read_some(buffer, Deadline::never());
      if (!size || *size == 0) {
        --streams_;
        co_return base::fail(ErrorCode::connection_closed, "the client went away");
      }
      bytes.assign(buffer.data(), *size);
    }
  }
  if (request.query.contains("follow=true")) {
    ++streams_;
    net::HttpWriter writer(stream, kPatience);
    auto head = HeadBuilder::response(200);
    head.add("content-type",
             request.find("accept") == nullptr ? "text/html" : "application/x-ndjson");
    head.add("x-log-start-offset", "7").add_chunked();
    CO_RETURN_IF_ERROR(co_await writer.write_head(head.finish()));
    CO_RETURN_IF_ERROR(co_await writer.write_chunk("line\n"));
    const auto ended = co_await stream.wait_readable(Deadline::never());
    --streams_;
    co_return base::fail(ErrorCode::connection_closed, "the client went away");
  }
  CO_ASSIGN_OR_RETURN(const std::string body, co_await reader.read_whole_body(kFileMax, kPatience));
  const Object echo{{"method", request.method}, {"target", request.target}, {"body", body}};
  const bool is_start = request.method == "POST" && request.path == "/sessions";
  const int status = is_start ? 201 : 200;
  co_return co_await write_answer(stream, {.status = status, .body = wire::json::serialize(echo)},
                                  true);
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
