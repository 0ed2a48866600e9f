#include "agent/session.h"

#include <fcntl.h>
#include <signal.h>

#include <algorithm>

#include "agent/login.h"
#include "base/log.h"

namespace agent {
namespace {

using net::Deadline;
using std::chrono::steady_clock;

// What is shown of a command; a script may have megabytes.
constexpr size_t kShownBytesMax = 4096;
// How much of a terminal is read after its command's end; a pipe tells what waits in it.
constexpr size_t kTerminalRestMax = size_t{64} * 1024;
constexpr int kExitNotExecutable = 126;

base::WallTime wall_now() { return base::RealClock().wall(); }

std::string_view json_bool(bool value) { return value ? "true" : "false"; }

std::string json_text(std::string_view text) {
  std::string out;
  base::append_json_string(out, text);
  return out;
}

// The arguments as a JSON array, cut where they get long.
std::string show_argv(const CommandRequest& request) {
  std::vector<std::string_view> parts;
  if (request.command) {
    parts = {"sh", "-c", *request.command};
  } else {
    parts.assign(request.argv.begin(), request.argv.end());
  }
  std::string text = "[";
  for (const std::string_view part : parts) {
    if (text.size() > kShownBytesMax) {
      text += ",\"…\"";
      break;
    }
    text += text.size() > 1 ? "," : "";
    std::string_view shown = part.substr(0, kShownBytesMax);
    // A character that was cut is left out.
    while (shown.size() < part.size() && !shown.empty() &&
           (static_cast<unsigned char>(part[shown.size()]) & 0xC0U) == 0x80) {
      shown.remove_suffix(1);
    }
    base::append_json_string(text, shown);
  }
  return text + "]";
}

SessionRequest with_terminal_environment(const Agent& agent, SessionRequest request) {
  add_terminal_environment(agent, request);
  return request;
}

}  // namespace

Session::Session(Agent& agent, std::string id, SessionRequest request)
    : agent_(agent),
      id_(std::move(id)),
      request_(with_terminal_environment(agent, std::move(request))),
      shown_argv_(show_argv(request_)),
      command_(agent, std::move(static_cast<CommandRequest&>(request_))),
      input_(agent.loop),
      lanes_{Lane{.pipe = OutputPipe(agent.loop), .stream = OutputStream::out},
             Lane{.pipe = OutputPipe(agent.loop), .stream = OutputStream::err}},
      log_(agent.spool_folder.get(), request_.log_bytes),
      started_at_(wall_now()) {}

Session::~Session() {
  if (pause_ != 0) {
    agent_.loop.remove_timer(pause_);
  }
}

Result<Command::Descriptors> Session::open_pipes() {
  ASSIGN_OR_RETURN(childs_ends_[1], lanes_[0].pipe.open_pipe());
  ASSIGN_OR_RETURN(childs_ends_[2], lanes_[1].pipe.open_pipe());
  if (request_.input) {
    ASSIGN_OR_RETURN(childs_ends_[0], input_.open_pipe());
  }
  const base::Fd& input = childs_ends_[0];
  return Command::Descriptors{.input = input ? input.get() : agent_.null_device.get(),
                              .output = childs_ends_[1].get(),
                              .error = childs_ends_[2].get(),
                              .tell_executed = true};
}

Result<Command::Descriptors> Session::open_terminal_of(const Identity& owner) {
  ASSIGN_OR_RETURN(Terminal terminal, open_terminal(*request_.terminal, owner));
  // Each user of the master waits for it in its own way.
  const auto copy = [&terminal] {
    return base::Fd(::fcntl(terminal.master.get(), F_DUPFD_CLOEXEC, 0));
  };
  lanes_[0].pipe.use_terminal(copy());
  if (request_.input) {
    input_.use_terminal(copy());
  }
  master_ = std::move(terminal.master);
  childs_ends_[0] = std::move(terminal.slave);
  const int slave = childs_ends_[0].get();
  return Command::Descriptors{
      .input = slave, .output = slave, .error = slave, .terminal = true, .tell_executed = true};
}

Result<void> Session::start() {
  const auto user = command_.request().user;
  ASSIGN_OR_RETURN(const Identity owner, agent_.accounts.find(user.value_or(agent_.config.user)));
  ASSIGN_OR_RETURN(const auto descriptors,
                   request_.terminal ? open_terminal_of(owner) : open_pipes());
  RETURN_IF_ERROR(command_.start(descriptors));
  for (base::Fd& end : childs_ends_) {
    end.reset();
  }
  started_at_ = wall_now();
  if (request_.followed) {
    pace_.expect(steady_clock::now());
  }
  for (Lane& lane : lanes_) {
    watch(lane);
  }
  return {};
}

net::Task<void> Session::supervise() {
  co_await command_.wait_executed();
  if (command_.ended()) {
    if (auto outcome = command_.outcome(); !outcome) {
      failure_ = std::move(outcome).error();
    }
  }
  settled_ = true;
  changed().notify();
  while (!command_.ended() && !ending_ && !command_.is_late()) {
    [[maybe_unused]] const auto wake =
        co_await changed().wait(Deadline::at(command_.time_out_at()));
  }
  if (!command_.ended()) {
    co_await end_command();
  }
  concluding_ = true;
  for (Lane& lane : lanes_) {
    lane.pipe.stop_waiting();
    co_await drain(lane);
  }
  conclude();
}

net::Task<void> Session::end_command() {
  if (!ending_) {
    command_.note_time_out();
  }
  if (at_once_) {
    command_.signal(SIGKILL);
  }
  co_await command_.end_tree();
}

void Session::conclude() {
  if (const auto outcome = command_.outcome()) {
    outcome_ = *outcome;
    add(OutputStream::err, command_.complaint());
  }
  ended_at_ = wall_now();
  for (Lane& lane : lanes_) {
    lane.pipe.close(&agent_.leftovers);
  }
  log_.unmap();
  input_.close();
  master_.reset();
  if (ending_) {
    command_.kill_remains();
  } else {
    command_.let_go_if_alone();
  }
  command_.release();
  over_ = true;
  changed().notify();
  for (const auto& [follower, handle] : followers_) {
    follower->wake();
  }
}

void Session::fail(std::string_view line) {
  add(OutputStream::err, line);
  outcome_.exit_code = kExitNotExecutable;
  ended_at_ = wall_now();
  for (Lane& lane : lanes_) {
    lane.pipe.close(nullptr);
  }
  input_.close();
  settled_ = over_ = true;
}

// --- output ------------------------------------------------------------------------------------

void Session::watch(Lane& lane) {
  lane.pipe.when_readable([this, &lane] { pump(lane); });
}

void Session::pump(Lane& lane) {
  const auto verdict = pace_.ask(log_.end_offset(), log_.capacity(), steady_clock::now());
  if (verdict.bytes_max == 0) {
    wait_for_followers(verdict.ask_again);
    return;
  }
  take_piece(lane, static_cast<size_t>(std::min<uint64_t>(verdict.bytes_max, SIZE_MAX)));
  watch(lane);
}

size_t Session::take_piece(Lane& lane, size_t bytes_max) {
  const size_t size = std::min(bytes_max, lane.pipe.piece_bytes());
  if (lane.pipe.floods()) {
    if (const size_t count = take_flood(lane, size); count > 0 || !lane.pipe.is_open()) {
      return count;
    }
  }
  const auto buffer = std::make_unique_for_overwrite<char[]>(size);
  const size_t count = lane.pipe.read({buffer.get(), size});
  add(lane.stream, {buffer.get(), count});
  return count;
}

// Straight into the log's mapping. 0: nothing is there now, or the log has no room of that kind.
size_t Session::take_flood(Lane& lane, size_t bytes_max) {
  const std::span<char> room = log_.room(bytes_max);
  const size_t count = room.empty() ? 0 : lane.pipe.read(room);
  if (count == 0) {
    log_.unmap();
    return 0;
  }
  offer(log_.commit(lane.stream, count, base::to_ms(wall_now())), {room.data(), count});
  return count;
}

void Session::add(OutputStream stream, std::string_view bytes) {
  if (bytes.empty()) {
    return;
  }
  const auto piece = log_.append(stream, bytes, base::to_ms(wall_now()));
  if (piece.size > 0) {
    offer(piece, bytes.substr(0, piece.size));
  }
}

void Session::offer(const SessionLog::Piece& piece, std::string_view bytes) {
  for (const auto& [follower, handle] : followers_) {
    follower->offer(piece, bytes);
  }
}

// Nothing is read until then or until a follower has moved.
void Session::wait_for_followers(base::SteadyTime until) {
  if (pause_ == 0) {
    pause_ = agent_.loop.add_timer(until, [this] {
      pause_ = 0;
      go_on();
    });
  }
}

void Session::go_on() {
  if (pause_ != 0) {
    agent_.loop.remove_timer(std::exchange(pause_, 0));
  }
  if (concluding_) {
    changed().notify();
    return;
  }
  for (Lane& lane : lanes_) {
    watch(lane);
  }
}

// What was written when the command ended still belongs to it; what its background children write
// from now on is dropped.
net::Task<void> Session::drain(Lane& lane) {
  size_t left = request_.terminal ? kTerminalRestMax : lane.pipe.waiting();
  while (left > 0 && lane.pipe.is_open()) {
    const auto verdict = pace_.ask(log_.end_offset(), log_.capacity(), steady_clock::now());
    if (verdict.bytes_max == 0) {
      [[maybe_unused]] const auto wake = co_await changed().wait(Deadline::at(verdict.ask_again));
      continue;
    }
    const size_t count = take_piece(lane, std::min<uint64_t>(left, verdict.bytes_max));
    if (count == 0) {
      break;
    }
    left -= count;
  }
  if (lane.pipe.is_open() && left == 0) {
    // The usual case: nobody else holds the other end, and this closes it.
    take_piece(lane, 1);
  }
}

Session::Following Session::join(LogFollower& follower, uint64_t position) {
  return followers_.insert(followers_.end(),
                           {&follower, pace_.join(position, steady_clock::now())});
}

void Session::moved(Following following, uint64_t position) {
  pace_.moved(following->second, position, steady_clock::now());
  if (pause_ != 0 || concluding_) {
    go_on();
  }
}

void Session::alive(Following following) { pace_.alive(following->second, steady_clock::now()); }

void Session::leave(Following following) {
  pace_.leave(following->second, steady_clock::now());
  followers_.erase(following);
}

// --- input, signals, what is shown ---------------------------------------------------------------

void Session::give_input(std::string_view bytes) {
  input_bytes_ += bytes.size();
  input_.add(std::string(bytes));
}

void Session::finish_input() {
  input_finished_ = !request_.terminal;  // one can type on after an end of file
  input_.finish();
}

Result<void> Session::resize(WindowSize size) {
  if (over_) {
    return base::fail(ErrorCode::session_exited, "the session has ended");
  }
  if (!request_.terminal) {
    return base::fail(ErrorCode::conflict, "the session has no terminal");
  }
  RETURN_IF_ERROR(set_window_size(master_.get(), size));
  request_.terminal = size;
  return {};
}

Result<void> Session::signal(int number) {
  if (over_ || command_.ended()) {
    return base::fail(ErrorCode::session_exited, "the session has ended");
  }
  command_.signal(number);
  return {};
}

void Session::end(bool at_once) {
  ending_ = true;
  at_once_ = at_once;
  if (over_) {
    command_.kill_remains();
    return;
  }
  if (at_once && !command_.ended()) {
    command_.signal(SIGKILL);
  }
  changed().notify();
}

std::string Session::exit_json() const {
  return base::cat("{\"exit_code\":", outcome_.exit_code,
                   ",\"signal\":", outcome_.signal.empty() ? "null" : json_text(outcome_.signal),
                   ",\"timed_out\":", json_bool(outcome_.timed_out),
                   ",\"oom_killed\":", json_bool(outcome_.oom_killed), "}");
}

std::string Session::json() const {
  const std::string terminal = request_.terminal
                                   ? base::cat("{\"cols\":", request_.terminal->columns,
                                               ",\"rows\":", request_.terminal->rows, "}")
                                   : "null";
  const std::string exit =
      over_ ? exit_json()
            : R"({"exit_code":null,"signal":null,"timed_out":false,"oom_killed":false})";
  return base::cat(
      "{\"id\":", json_text(id_), ",\"name\":", name().empty() ? "null" : json_text(name()),
      ",\"state\":", over_ ? "\"exited\"" : "\"running\"", ",\"pid\":", command_.pid(),
      ",\"argv\":", shown_argv_, ",\"tty\":", terminal, ",",
      std::string_view(exit).substr(1, exit.size() - 2),
      ",\"started_at\":", json_text(base::rfc3339(started_at_)),
      ",\"ended_at\":", over_ ? json_text(base::rfc3339(ended_at_)) : "null",
      ",\"log\":{\"start_offset\":", log_.start_offset(), ",\"end_offset\":", log_.end_offset(),
      ",\"dropped_bytes\":", log_.dropped_bytes(), "}}");
}

}  // namespace agent
