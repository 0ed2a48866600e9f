#include "agent/session_routes.h"

#include <algorithm>

#include "agent/answers.h"
#include "agent/attach.h"
#include "agent/client_watch.h"
#include "agent/log_framing.h"
#include "agent/login.h"
#include "base/fault.h"

namespace agent {
namespace {

using net::Deadline;
using wire::http::HeadBuilder;
using wire::http::Request;

// As that of /run.
constexpr size_t kStartBytesMax = size_t{12} * 1024 * 1024;
constexpr size_t kSmallBodyBytesMax = 4096;
constexpr double kWaitSecondsMax = 300;
constexpr double kMillisecondsPerSecond = 1000;
// How long a request waits for another one to have written its input.
constexpr base::Milliseconds kTurnPatience{10'000};
constexpr base::Milliseconds kClientPoll{1000};
constexpr std::string_view kTerminalName = "terminal";

Result<std::optional<uint64_t>> number_parameter(const Request& request, std::string_view name) {
  ASSIGN_OR_RETURN(const auto text, request.parameter(name));
  if (!text) {
    return std::nullopt;
  }
  const auto number = base::parse_number<uint64_t>(*text);
  if (!number || *number > INT64_MAX) {
    return base::fail_field(name, "'", name, "' must be a number of 0 or more");
  }
  return number;
}

Result<bool> flag_parameter(const Request& request, std::string_view name) {
  ASSIGN_OR_RETURN(const auto text, request.parameter(name));
  if (!text || *text == "0" || *text == "false") {
    return false;
  }
  if (*text == "1" || *text == "true") {
    return true;
  }
  return base::fail_field(name, "'", name, "' must be 1, true, 0 or false");
}

Result<base::Milliseconds> wait_parameter(const Request& request) {
  ASSIGN_OR_RETURN(const auto text, request.parameter("wait"));
  if (!text) {
    return base::Milliseconds(0);
  }
  const auto seconds = base::parse_number<uint64_t>(*text);
  if (!seconds || static_cast<double>(*seconds) > kWaitSecondsMax) {
    return base::fail_field("wait", "'wait' must be a number of seconds from 0 to 300");
  }
  return base::Milliseconds(
      static_cast<int64_t>(static_cast<double>(*seconds) * kMillisecondsPerSecond));
}

Result<std::optional<OutputStream>> stream_parameter(const Request& request) {
  ASSIGN_OR_RETURN(const auto text, request.parameter("stream"));
  if (!text || *text == "both") {
    return std::nullopt;
  }
  if (*text == "stdout") {
    return OutputStream::out;
  }
  if (*text == "stderr") {
    return OutputStream::err;
  }
  return base::fail_field("stream", "'stream' must be both, stdout or stderr");
}

std::unexpected<base::Error> beyond_end(std::string_view what, uint64_t end) {
  auto error = base::fail(ErrorCode::range_not_satisfiable, "the offset is beyond the end of the ",
                          what, ", which is ", end);
  error.error().details = {{"field", "offset"}, {"size", base::cat(end)}};
  return error;
}

// --- start, list, status, end -------------------------------------------------------------------

Task<Result<void>> start(SessionCall call) {
  CO_ASSIGN_OR_RETURN(const std::string body,
                      co_await read_body(call.stream, call.reader, call.request, kStartBytesMax));
  CO_ASSIGN_OR_RETURN(SessionRequest request, parse_session_request(body));
  CO_ASSIGN_OR_RETURN(const SessionPtr session, co_await call.sessions.start(std::move(request)));
  base::fault_point("agent.session.started");
  co_return co_await write_json(call.stream, 201, session->json());
}

Task<Result<void>> status(SessionCall call, SessionPtr session) {
  CO_ASSIGN_OR_RETURN(const base::Milliseconds time, wait_parameter(call.request));
  if (time.count() == 0) {
    co_return co_await write_json(call.stream, 200, session->json());
  }
  const Deadline deadline = Deadline::after(time);
  bool gone = false;
  const ClientWatch watch(call.stream, [&gone, &session] {
    gone = true;
    session->changed().notify();
  });
  while (!session->over() && !gone) {
    const auto wake = co_await session->changed().wait(deadline);
    if (wake == net::EventLoop::Wake::cancelled) {
      co_return std::unexpected(net::wake_error(wake, "wait for a session"));
    }
    if (wake == net::EventLoop::Wake::deadline) {
      break;
    }
  }
  if (gone) {
    co_return base::fail(ErrorCode::connection_closed, "the client left");
  }
  co_return co_await write_json(call.stream, 200, session->json());
}

Task<Result<void>> remove(SessionCall call, SessionPtr session) {
  CO_ASSIGN_OR_RETURN(const bool lives_on, flag_parameter(call.request, "keep_background"));
  if (lives_on) {
    CO_RETURN_IF_ERROR(call.sessions.forget(session));
  } else {
    co_await call.sessions.remove(std::move(session));
  }
  base::fault_point("agent.session.removed");
  co_return co_await write_no_content(call.stream);
}

// --- the log
// --------------------------------------------------------------------------------------

struct LogQuery {
  uint64_t offset = 0;
  bool follow = false;
  bool lines = false;
  OutputEncoding encoding = OutputEncoding::utf8;  // of the lines
  std::optional<OutputStream> only;
};

Result<LogQuery> parse_log_query(const Request& request, const SessionLog& log) {
  LogQuery query;
  ASSIGN_OR_RETURN(const auto offset, number_parameter(request, "offset"));
  ASSIGN_OR_RETURN(query.follow, flag_parameter(request, "follow"));
  ASSIGN_OR_RETURN(query.only, stream_parameter(request));
  const std::string* accept = request.find("accept");
  query.lines = accept != nullptr && accept->find("application/x-ndjson") != std::string::npos;
  ASSIGN_OR_RETURN(const auto encoding, request.parameter("encoding"));
  ASSIGN_OR_RETURN(query.encoding, parse_encoding("encoding", encoding));
  query.offset = offset.value_or(0);
  if (query.offset > log.end_offset()) {
    return beyond_end("log", log.end_offset());
  }
  if (query.only && !query.lines && query.offset != 0) {
    return base::fail_field("offset",
                            "the bytes of one stream are told from 0 only, as their offsets are "
                            "those of the whole log");
  }
  return query;
}

std::unique_ptr<LogFraming> framing_of(const LogQuery& query) {
  if (query.lines) {
    return std::make_unique<LineFraming>(query.only, query.encoding);
  }
  if (query.follow || query.only) {
    return std::make_unique<ChunkFraming>(query.only);
  }
  return std::make_unique<PlainFraming>();
}

Task<Result<void>> tell_log(SessionCall call, SessionPtr session) {
  const SessionLog& log = session->log();
  CO_ASSIGN_OR_RETURN(const LogQuery query, parse_log_query(call.request, log));
  const uint64_t from = std::max(query.offset, log.start_offset());
  const uint64_t end = log.end_offset();
  HeadBuilder head = HeadBuilder::response(200);
  head.add("content-type", query.lines ? "application/x-ndjson" : "application/octet-stream")
      .add("x-log-start-offset", base::cat(from));
  if (query.lines || query.follow || query.only) {
    head.add_chunked();
  } else {
    head.add("x-log-end-offset", base::cat(end)).add_length(end - from);
  }
  // Joined before anything is waited for, so that what is promised stays readable.
  const auto framing = framing_of(query);
  LogStream stream(session, call.stream, *framing, from,
                   query.follow ? std::nullopt : std::optional(end), call.agent.patience.silence);
  stream.say(head.finish());
  const ClientWatch watch(call.stream, [&stream] { stream.leave(); });
  const auto told = co_await stream.run();
  if (!told) {
    // The head was written: the answer must not look complete.
    co_return base::fail(ErrorCode::connection_closed, told.error().message);
  }
  co_return Result<void>{};
}

// --- input
// ----------------------------------------------------------------------------------------

// One request writes input at a time.
class Turn {
 public:
  explicit Turn(Session& session) : session_(session) { session_.input_taken = true; }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  ~Turn() {
    session_.input_taken = false;
    session_.input().changed().notify();
  }

 private:
  Session& session_;
};

Result<void> check_input(Session& session) {
  if (session.over()) {
    return base::fail(ErrorCode::session_exited, "the session has ended");
  }
  if (session.input_finished()) {
    return base::fail(ErrorCode::conflict, "the session's input was closed");
  }
  if (!session.input().is_open()) {
    return base::fail(ErrorCode::conflict, "the session takes no input");
  }
  return {};
}

Task<Result<void>> wait_for_turn(Session& session) {
  const Deadline deadline = Deadline::after(kTurnPatience);
  while (session.input_taken) {
    const auto wake = co_await session.input().changed().wait(deadline);
    if (wake == net::EventLoop::Wake::cancelled) {
      co_return std::unexpected(net::wake_error(wake, "wait to write input"));
    }
    if (wake == net::EventLoop::Wake::deadline) {
      co_return base::fail(ErrorCode::overloaded, "another request is writing the input");
    }
  }
  co_return Result<void>{};
}

Task<Result<void>> wait_for_room(Session& session, int socket) {
  CommandInput& input = session.input();
  while (input.is_open() && !input.has_room()) {
    const auto wake = co_await input.changed().wait(Deadline::after(kClientPoll));
    if (wake == net::EventLoop::Wake::cancelled || peer_has_closed(socket)) {
      co_return base::fail(ErrorCode::connection_closed, "the client left");
    }
  }
  co_return check_input(session);
}

Task<Result<void>> write_input(SessionCall call, SessionPtr session) {
  CO_ASSIGN_OR_RETURN(const auto offset, number_parameter(call.request, "offset"));
  CO_ASSIGN_OR_RETURN(const bool eof, flag_parameter(call.request, "eof"));
  CO_RETURN_IF_ERROR(co_await wait_for_turn(*session));
  const Turn turn(*session);
  if (offset && *offset > session->input_bytes()) {
    co_return beyond_end("input", session->input_bytes());
  }
  // What was taken before is not taken again, and a request whose answer was lost is repeated
  // though the session may have ended since: only what is new needs an open input.
  uint64_t skip = offset ? session->input_bytes() - *offset : 0;
  const bool was_closed = session->input_finished() || session->over();
  const bool may_be_repeat = skip > 0 || (offset && eof && was_closed);
  if (!may_be_repeat) {
    CO_RETURN_IF_ERROR(check_input(*session));
  }
  CO_RETURN_IF_ERROR(co_await ask_for_body(call.stream, call.request));
  for (;;) {
    CO_ASSIGN_OR_RETURN(auto piece, co_await call.reader.read_body(Deadline::after(kBodyPatience)));
    if (piece.empty()) {
      break;
    }
    const auto known = static_cast<size_t>(std::min<uint64_t>(skip, piece.size()));
    skip -= known;
    piece.remove_prefix(known);
    if (!piece.empty()) {
      CO_RETURN_IF_ERROR(co_await wait_for_room(*session, call.stream.fd()));
      session->give_input(piece);
    }
  }
  if (eof && session->input().is_open()) {
    session->finish_input();
  }
  base::fault_point("agent.session.input");
  co_return co_await write_json(call.stream, 200,
                                base::cat("{\"offset\":", session->input_bytes(), "}"));
}

// --- small orders
// ---------------------------------------------------------------------------------

Task<Result<void>> kill(SessionCall call, SessionPtr session) {
  CO_ASSIGN_OR_RETURN(const std::string body, co_await read_body(call.stream, call.reader,
                                                                 call.request, kSmallBodyBytesMax));
  CO_ASSIGN_OR_RETURN(const int number, parse_kill(body));
  CO_RETURN_IF_ERROR(session->signal(number));
  co_return co_await write_no_content(call.stream);
}

Task<Result<void>> resize(SessionCall call, SessionPtr session) {
  CO_ASSIGN_OR_RETURN(const std::string body, co_await read_body(call.stream, call.reader,
                                                                 call.request, kSmallBodyBytesMax));
  CO_ASSIGN_OR_RETURN(const WindowSize size, parse_window_size(body));
  CO_RETURN_IF_ERROR(session->resize(size));
  co_return co_await write_no_content(call.stream);
}

// --- upgraded connections
// -------------------------------------------------------------------------

Result<void> check_upgrade(const Request& request) {
  if (!wants_websocket(request)) {
    return base::fail(ErrorCode::malformed, "this route needs 'Upgrade: websocket'");
  }
  return {};
}

Task<Result<void>> attach(SessionCall call, SessionPtr session) {
  CO_RETURN_IF_ERROR(check_upgrade(call.request));
  CO_ASSIGN_OR_RETURN(const auto offset, number_parameter(call.request, "offset"));
  if (offset && *offset > session->log().end_offset()) {
    co_return beyond_end("log", session->log().end_offset());
  }
  const uint64_t position = offset                    ? *offset
                            : session->has_terminal() ? screen_offset(session->log())
                                                      : 0;
  co_return co_await attach_session(std::move(session), call.stream, call.reader, position,
                                    call.agent.patience);
}

Result<std::optional<WindowSize>> size_parameters(const Request& request) {
  ASSIGN_OR_RETURN(const auto columns, number_parameter(request, "cols"));
  ASSIGN_OR_RETURN(const auto rows, number_parameter(request, "rows"));
  if (!columns && !rows) {
    return std::nullopt;
  }
  WindowSize size;
  for (const auto& [given, side, name] :
       {std::tuple{columns, &size.columns, "cols"}, std::tuple{rows, &size.rows, "rows"}}) {
    if (given && (*given < 1 || *given > static_cast<uint64_t>(kWindowSideMax))) {
      return base::fail_field(name, "'", name, "' must be from 1 to ", kWindowSideMax);
    }
    *side = static_cast<uint16_t>(given.value_or(*side));
  }
  return size;
}

// A login shell of the sandbox's user.
Result<SessionRequest> login_session(Agent& agent, std::string name, WindowSize size) {
  SessionRequest request;
  request.name = std::move(name);
  request.terminal = size;
  RETURN_IF_ERROR(make_login(agent, request));
  return request;
}

Task<Result<void>> terminal(SessionCall call) {
  CO_RETURN_IF_ERROR(check_upgrade(call.request));
  CO_ASSIGN_OR_RETURN(const auto size, size_parameters(call.request));
  CO_ASSIGN_OR_RETURN(const auto offset, number_parameter(call.request, "offset"));
  CO_ASSIGN_OR_RETURN(const auto given_name, call.request.parameter("session"));
  const std::string name = given_name.value_or(std::string(kTerminalName));
  CO_RETURN_IF_ERROR(check_session_name(name));
  SessionPtr session = call.sessions.find_running(name);
  if (!session) {
    CO_ASSIGN_OR_RETURN(SessionRequest request,
                        login_session(call.agent, name, size.value_or(WindowSize{})));
    CO_ASSIGN_OR_RETURN(session, co_await call.sessions.start(std::move(request)));
  } else if (!session->has_terminal()) {
    co_return base::fail(ErrorCode::conflict, "the session '", name, "' has no terminal");
  } else if (size) {
    CO_RETURN_IF_ERROR(session->resize(*size));
  }
  const SessionLog& log = session->log();
  if (offset && *offset > log.end_offset()) {
    co_return beyond_end("log", log.end_offset());
  }
  const uint64_t position = offset ? *offset : screen_offset(log);
  co_return co_await attach_session(std::move(session), call.stream, call.reader, position,
                                    call.agent.patience);
}

using Handler = Task<Result<void>> (*)(SessionCall, SessionPtr);
struct Row {
  std::string_view method;
  std::string_view action;  // behind /sessions/{sid}/
  Handler handler;
};
constexpr Row kRows[] = {
    {"GET", "", status},       {"DELETE", "", remove},
    {"GET", "logs", tell_log}, {"POST", "stdin", write_input},
    {"POST", "kill", kill},    {"POST", "resize", resize},
    {"GET", "attach", attach},
};

}  // namespace

bool is_session_route(std::string_view path) {
  return path == "/terminal" || path == "/sessions" || path.starts_with("/sessions/");
}

Task<Result<void>> serve_session_route(SessionCall call) {
  const Request& request = call.request;
  const auto not_allowed = [&request] {
    return base::fail(ErrorCode::method_not_allowed, request.method, " is not allowed on ",
                      request.path);
  };
  if (request.path == "/terminal") {
    if (request.method != "GET") {
      co_return not_allowed();
    }
    co_return co_await terminal(call);
  }
  if (request.path == "/sessions") {
    if (request.method == "POST") {
      co_return co_await start(call);
    }
    if (request.method != "GET") {
      co_return not_allowed();
    }
    co_return co_await write_json(call.stream, 200, call.sessions.list_json());
  }
  const std::string_view rest = std::string_view(request.path).substr(sizeof "/sessions/" - 1);
  const size_t slash = rest.find('/');
  const std::string_view action =
      slash == std::string_view::npos ? std::string_view() : rest.substr(slash + 1);
  const auto id = base::percent_decode(rest.substr(0, slash));
  const bool known = std::ranges::find(kRows, action, &Row::action) != std::end(kRows) &&
                     (slash == std::string_view::npos || !action.empty());
  if (!known || !id) {
    co_return base::fail(ErrorCode::not_found, "there is no route ", request.path);
  }
  const auto row = std::ranges::find_if(kRows, [&](const Row& candidate) {
    return candidate.action == action && candidate.method == request.method;
  });
  if (row == std::end(kRows)) {
    co_return not_allowed();
  }
  CO_ASSIGN_OR_RETURN(SessionPtr session, call.sessions.find(*id));
  co_return co_await row->handler(call, std::move(session));
}

}  // namespace agent
