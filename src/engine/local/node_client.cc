#include "engine/local/node_client.h"

#include <algorithm>

#include "base/sys.h"
#include "engine/local/node_messages.h"
#include "net/stream.h"

namespace engine {
namespace {

using base::ErrorCode;
using base::fail;
using net::Deadline;
using net::EventLoop;
using net::Task;
using wire::json::Object;

constexpr base::Milliseconds kBackOffFirst{20};  // a node restarts in a fraction of a second
constexpr base::Milliseconds kBackOffMax{1000};
constexpr base::Milliseconds kGreetPatience{10'000};

}  // namespace

NodeClient::NodeClient(EventLoop& loop, std::string socket, base::Log& log)
    : loop_(loop), socket_(std::move(socket)), log_(log), connected_(loop), changed_(loop) {}

Task<void> NodeClient::run() {
  base::Milliseconds back_off = kBackOffFirst;
  for (;;) {
    const base::Error end = co_await serve_connection();
    const bool was_greeted = std::exchange(greeted_, false);
    lines_.reset();
    fail_calls(end.message);
    if (end.code == ErrorCode::cancelled) {
      co_return;
    }
    if (was_greeted || last_error_ != end.message) {
      log_.warning(was_greeted ? "lost the node" : "cannot reach the node",
                   {{"error", end.message}});
    }
    last_error_ = end.message;
    back_off = was_greeted ? kBackOffFirst : std::min(back_off * 2, kBackOffMax);
    const auto wake = co_await loop_.sleep_until(Deadline::after(back_off));
    if (wake == EventLoop::Wake::cancelled) {
      co_return;
    }
  }
}

// Returns why the connection is no more.
Task<base::Error> NodeClient::serve_connection() {
  auto socket = base::sys::connect_unix(socket_, true);
  if (!socket) {
    co_return std::move(socket).error();
  }
  lines_ = std::make_unique<net::JsonLines>(loop_, std::move(*socket));
  if (auto sent = greet(); !sent) {
    co_return std::move(sent).error();
  }
  const Deadline greeted_by = Deadline::after(kGreetPatience);
  for (;;) {
    auto line = co_await lines_->read(greeted_ ? Deadline::never() : greeted_by);
    if (!line) {
      co_return std::move(line).error();
    }
    if (!*line) {
      co_return base::Error{.code = ErrorCode::connection_closed,
                            .message = "the node closed the connection"};
    }
    if (auto taken = take_line(std::move(**line)); !taken) {
      co_return std::move(taken).error();
    }
  }
}

Result<void> NodeClient::greet() {
  hello_seq_ = ++last_seq_;
  watch_seq_ = ++last_seq_;
  RETURN_IF_ERROR(lines_->send(Object{{"seq", hello_seq_}, {"op", "hello"}}));
  return lines_->send(Object{{"seq", watch_seq_}, {"op", "watch"}});
}

Result<void> NodeClient::take_line(net::JsonLines::Line given) {
  const Object& line = given.object;
  wire::json::Reader reader(line);
  ASSIGN_OR_RETURN(const auto event, reader.optional<Object>("event"));
  if (event) {
    ASSIGN_OR_RETURN(Change change, parse_change(*event, node_.name));
    take_change(std::move(change));
    return {};
  }
  ASSIGN_OR_RETURN(const int64_t seq, reader.required<int64_t>("seq"));
  if (seq == hello_seq_ || seq == watch_seq_) {
    return take_greeting(seq, line);
  }
  const auto found = calls_.find(seq);
  if (found == calls_.end()) {
    return {};  // its caller has given up
  }
  const auto* const error = line.if_contains("error");
  Call& call = *found->second;
  if (error != nullptr) {
    call.answer = std::unexpected(parse_error(*error));
  } else {
    ASSIGN_OR_RETURN(Object ok, reader.required<Object>("ok"));
    call.answer = std::move(ok);
    call.fds = std::move(given.fds);
  }
  call.answered.notify();
  return {};
}

Result<void> NodeClient::take_greeting(int64_t seq, const Object& line) {
  if (const auto* const error = line.if_contains("error"); error != nullptr) {
    return std::unexpected(parse_error(*error));
  }
  if (seq == hello_seq_) {
    wire::json::Reader reader(line);
    ASSIGN_OR_RETURN(const Object ok, reader.required<Object>("ok"));
    ASSIGN_OR_RETURN(node_, parse_node(ok));
    hello_seq_ = 0;
  } else {
    watch_seq_ = 0;
  }
  if (hello_seq_ != 0 || watch_seq_ != 0) {
    return {};
  }
  greeted_ = true;
  log_.info("connected to the node", {{"node", node_.name}, {"version", node_.version}});
  if (std::exchange(greeted_before_, true)) {
    take_change(fail(ErrorCode::unavailable, "the node was away; changes may have been missed"));
  }
  connected_.notify();
  return {};
}

void NodeClient::take_change(Result<Change> change) {
  if (changes_.size() >= kChangesMax) {
    changes_.clear();
    change = fail(ErrorCode::unavailable, "too many changes were waiting; they are dropped");
  }
  changes_.push_back(std::move(change));
  changed_.notify();
}

void NodeClient::fail_calls(const std::string& why) {
  for (const auto& [seq, call] : calls_) {
    if (!call->answer) {
      call->answer = fail(ErrorCode::unavailable, "the node went away: ", why);
      call->answered.notify();
    }
  }
}

base::Histogram& NodeClient::times_of(std::string_view operation) {
  return operation == "create"   ? times_.create
         : operation == "remove" ? times_.remove
                                 : times_.other;
}

Task<Result<Object>> NodeClient::call(std::string operation, Object fields,
                                      base::Milliseconds patience, base::Fd fd) {
  return ask(std::move(operation), std::move(fields), patience, std::move(fd), nullptr);
}

Task<Result<base::Fd>> NodeClient::call_for_descriptor(std::string operation,
                                                       base::Milliseconds patience) {
  std::vector<base::Fd> received;
  CO_RETURN_IF_ERROR(co_await ask(operation, Object{}, patience, base::Fd(), &received));
  if (received.size() != 1) {
    co_return fail(ErrorCode::internal, "the node answered to ", operation, " with ",
                   received.size(), " descriptors");
  }
  co_return std::move(received.front());
}

Task<Result<Object>> NodeClient::ask(std::string operation, Object fields,
                                     base::Milliseconds patience, base::Fd fd,
                                     std::vector<base::Fd>* received) {
  const Deadline connect_by = Deadline::after(kConnectPatience);
  while (!greeted_) {
    const auto wake = co_await connected_.wait(connect_by);
    if (wake == EventLoop::Wake::cancelled) {
      co_return std::unexpected(net::wake_error(wake, operation));
    }
    if (wake == EventLoop::Wake::deadline && !greeted_) {
      co_return fail(ErrorCode::unavailable, "the node cannot be reached: ", last_error_);
    }
  }
  if (calls_.size() >= kCallsMax) {
    co_return fail(ErrorCode::overloaded, "too many calls of the node are under way");
  }
  Call call(loop_);
  const int64_t seq = ++last_seq_;
  // The entry goes with this frame, however it ends.
  struct Entry {
    std::unordered_map<int64_t, Call*>& calls;
    int64_t seq;
    base::Histogram& times;
    base::SteadyTime began = std::chrono::steady_clock::now();
    ~Entry() {
      calls.erase(seq);
      times.observe(std::chrono::steady_clock::now() - began);
    }
  };
  calls_.emplace(seq, &call);
  const Entry entry{calls_, seq, times_of(operation)};
  fields["seq"] = seq;
  fields["op"] = operation;
  std::vector<base::Fd> fds;
  if (fd) {
    fds.push_back(std::move(fd));
  }
  if (auto sent = lines_->send(std::move(fields), std::move(fds)); !sent) {
    const ErrorCode code = sent.error().code;
    co_return fail(code == ErrorCode::body_too_large ? code : ErrorCode::unavailable,
                   "ask the node to ", operation, ": ", sent.error().message);
  }
  const Deadline answered_by = Deadline::after(patience);
  while (!call.answer) {
    const auto wake = co_await call.answered.wait(answered_by);
    if (wake == EventLoop::Wake::cancelled) {
      co_return std::unexpected(net::wake_error(wake, operation));
    }
    if (wake == EventLoop::Wake::deadline && !call.answer) {
      co_return fail(ErrorCode::unavailable, "the node did not answer to ", operation, " in time");
    }
  }
  if (received != nullptr) {
    *received = std::move(call.fds);
  }
  co_return std::move(*call.answer);
}

Task<Result<Change>> NodeClient::next_change() {
  while (changes_.empty()) {
    // Bounded by its caller's cancellation: nothing may happen for hours.
    const auto wake = co_await changed_.wait(Deadline::never());
    if (wake == EventLoop::Wake::cancelled) {
      co_return std::unexpected(net::wake_error(wake, "wait for a change"));
    }
  }
  auto change = std::move(changes_.front());
  changes_.pop_front();
  co_return change;
}

Result<NodeInfo> NodeClient::node() const {
  if (!greeted_) {
    return fail(ErrorCode::unavailable, "the node cannot be reached: ", last_error_);
  }
  return node_;
}

}  // namespace engine
