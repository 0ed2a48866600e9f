#include "service/builder_agent.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/sys.h"

namespace service {
namespace {

using base::ErrorCode;
using base::Result;
using net::Task;
using wire::http::HeadBuilder;

// Between two pieces of a transfer: a builder with a busy disk writes in bursts.
constexpr base::Milliseconds kPiecePatience{60'000};
// Behind the last byte of an upload: it is written through before it is told.
constexpr base::Milliseconds kCommitPatience{300'000};
constexpr size_t kPieceBytes = size_t{256} << 10;
constexpr int kOkMost = 299;

Result<std::string> read_piece(int file, uint64_t offset) {
  std::string piece(kPieceBytes, '\0');
  const ssize_t size = ::pread(file, piece.data(), piece.size(), static_cast<off_t>(offset));
  if (size < 0) {
    return base::fail_errno(errno, "read a spooled file");
  }
  piece.resize(static_cast<size_t>(size));
  return piece;
}

// What an agent answered instead of what was asked for.
std::unexpected<base::Error> refused(const BuilderAgent::Answer& answer) {
  std::string message = base::cat("its agent answered with status ", answer.status);
  if (const auto body = wire::json::parse_object(answer.body)) {
    const auto* error = body->if_contains("error");
    const auto* text = error != nullptr && error->is_object()
                           ? error->get_object().if_contains("message")
                           : nullptr;
    if (text != nullptr && text->is_string()) {
      message = std::string(text->get_string());
    }
  }
  constexpr int kFull = 507;
  return base::fail(answer.status == kFull ? ErrorCode::disk_full : ErrorCode::agent_failed,
                    message);
}

}  // namespace

std::string file_target(std::string_view path) {
  return base::cat("/files?path=", base::percent_encode(path));
}

Task<Result<BuilderAgent::Channel>> BuilderAgent::send_head(HeadBuilder head) {
  CO_ASSIGN_OR_RETURN(auto agent, co_await context_.engine.connect(id_));
  CO_RETURN_IF_ERROR(
      co_await agent->stream.write_all(head.add("host", "agent").finish(), kPiecePatience));
  co_return std::move(agent);
}

Task<Result<BuilderAgent::Answer>> BuilderAgent::read_answer(engine::AgentConnection& agent,
                                                             std::string method,
                                                             base::Milliseconds patience) {
  CO_ASSIGN_OR_RETURN(const auto response,
                      co_await agent.reader.read_response(method, net::Deadline::after(patience)));
  Answer answer{.status = response.status};
  CO_ASSIGN_OR_RETURN(answer.body,
                      co_await agent.reader.read_whole_body(kAnswerBytesMax, kPiecePatience));
  co_return answer;
}

Task<Result<BuilderAgent::Answer>> BuilderAgent::ask(std::string method, std::string target,
                                                     std::string body,
                                                     base::Milliseconds patience) {
  auto head = HeadBuilder::request(method, target);
  if (!body.empty()) {
    head.add("content-type", "application/json").add_length(body.size());
  }
  CO_ASSIGN_OR_RETURN(auto agent, co_await send_head(std::move(head)));
  CO_RETURN_IF_ERROR(co_await agent->stream.write_all(body, kPiecePatience));
  CO_ASSIGN_OR_RETURN(auto answer, co_await read_answer(*agent, method, patience));
  context_.engine.give_back(id_, std::move(agent));
  co_return answer;
}

Task<Result<wire::json::Object>> BuilderAgent::ask_json(std::string method, std::string target,
                                                        std::string body,
                                                        base::Milliseconds patience) {
  CO_ASSIGN_OR_RETURN(const Answer answer, co_await ask(std::move(method), std::move(target),
                                                        std::move(body), patience));
  if (answer.status > kOkMost) {
    co_return refused(answer);
  }
  auto object = wire::json::parse_object(answer.body);
  if (!object) {
    co_return base::fail(ErrorCode::agent_failed, "its agent answered with broken JSON");
  }
  co_return std::move(*object);
}

Task<Result<std::string>> BuilderAgent::read_some(std::string target, size_t bytes_max) {
  constexpr int kOk = 200;
  CO_ASSIGN_OR_RETURN(auto agent, co_await send_head(HeadBuilder::request("GET", target)));
  CO_ASSIGN_OR_RETURN(const auto response, co_await agent->reader.read_response(
                                               "GET", net::Deadline::after(kPiecePatience)));
  std::string text;
  while (response.status == kOk && text.size() < bytes_max) {
    CO_ASSIGN_OR_RETURN(const auto piece,
                        co_await agent->reader.read_body(net::Deadline::after(kPiecePatience)));
    if (piece.empty()) {
      context_.engine.give_back(id_, std::move(agent));
      break;
    }
    text += piece;
  }
  co_return text;
}

Task<Result<void>> BuilderAgent::put(std::string target, const base::Fd& file) {
  struct stat info{};
  if (::fstat(file.get(), &info) != 0) {
    co_return base::fail_errno(errno, "stat a spooled file");
  }
  const auto size = static_cast<uint64_t>(info.st_size);
  auto head = HeadBuilder::request("PUT", target);
  head.add("content-type", "application/octet-stream").add_length(size);
  CO_ASSIGN_OR_RETURN(auto agent, co_await send_head(std::move(head)));
  for (uint64_t sent = 0; sent < size;) {
    auto read = [descriptor = file.get(), sent] { return read_piece(descriptor, sent); };
    CO_ASSIGN_OR_RETURN(const std::string piece, co_await context_.pool.run(std::move(read)));
    if (piece.empty()) {
      co_return base::fail(ErrorCode::internal, "a spooled file became shorter");
    }
    const auto written = co_await agent->stream.write_all(piece, kPiecePatience);
    if (!written) {
      break;  // it has answered early; what it says is the better error
    }
    sent += piece.size();
  }
  CO_ASSIGN_OR_RETURN(const Answer answer, co_await read_answer(*agent, "PUT", kCommitPatience));
  if (answer.status > kOkMost) {
    co_return refused(answer);
  }
  context_.engine.give_back(id_, std::move(agent));
  co_return Result<void>{};
}

Task<Result<BuilderAgent::Channel>> BuilderAgent::open_get(std::string target) {
  CO_ASSIGN_OR_RETURN(auto agent, co_await send_head(HeadBuilder::request("GET", target)));
  CO_ASSIGN_OR_RETURN(const auto response, co_await agent->reader.read_response(
                                               "GET", net::Deadline::after(kPiecePatience)));
  if (response.status > kOkMost) {
    Answer answer{.status = response.status};
    CO_ASSIGN_OR_RETURN(answer.body,
                        co_await agent->reader.read_whole_body(kAnswerBytesMax, kPiecePatience));
    co_return refused(answer);
  }
  co_return std::move(agent);
}

Task<Result<void>> BuilderAgent::get(std::string target, const base::Fd& file, uint64_t bytes_max) {
  CO_ASSIGN_OR_RETURN(auto agent, co_await open_get(std::move(target)));
  uint64_t size = 0;
  for (;;) {
    CO_ASSIGN_OR_RETURN(const auto piece,
                        co_await agent->reader.read_body(net::Deadline::after(kPiecePatience)));
    if (piece.empty()) {
      break;
    }
    size += piece.size();
    if (size > bytes_max) {
      co_return base::fail(ErrorCode::body_too_large, "a file of the builder exceeds ", bytes_max,
                           " bytes");
    }
    auto write = [descriptor = file.get(), piece] {
      return base::sys::write_all(descriptor, piece);
    };
    CO_RETURN_IF_ERROR(co_await context_.pool.run(std::move(write)));
  }
  context_.engine.give_back(id_, std::move(agent));
  co_return Result<void>{};
}

Task<Result<void>> BuilderAgent::put_from(std::string target, BuilderAgent& source,
                                          std::string source_target) {
  CO_ASSIGN_OR_RETURN(auto from, co_await source.open_get(std::move(source_target)));
  auto head = HeadBuilder::request("PUT", target);
  head.add("content-type", "application/octet-stream").add_chunked();
  CO_ASSIGN_OR_RETURN(auto to, co_await send_head(std::move(head)));
  for (bool more = true; more;) {
    CO_ASSIGN_OR_RETURN(const auto piece,
                        co_await from->reader.read_body(net::Deadline::after(kPiecePatience)));
    more = !piece.empty();
    const auto written =
        more ? co_await to->stream.write_all(wire::http::chunk_head(piece.size()), piece, "\r\n",
                                             kPiecePatience)
             : co_await to->stream.write_all(wire::http::kLastChunk, kPiecePatience);
    if (!written) {
      break;  // as above
    }
  }
  CO_ASSIGN_OR_RETURN(const Answer answer, co_await read_answer(*to, "PUT", kCommitPatience));
  if (answer.status > kOkMost) {
    co_return refused(answer);
  }
  context_.engine.give_back(id_, std::move(to));
  co_return Result<void>{};
}

}  // namespace service
