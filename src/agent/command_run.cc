#include "agent/command_run.h"

#include <algorithm>

#include "agent/run_answer.h"
#include "agent/uncancelled.h"
#include "wire/http1.h"

namespace agent {
namespace {

using net::Deadline;
using std::chrono::steady_clock;

constexpr base::Milliseconds kKeepAlive{15'000};

}  // namespace

CommandRun::CommandRun(Agent& agent, net::Stream& client, CommandRequest request,
                       uint64_t output_limit)
    : agent_(agent),
      client_(client),
      command_(agent, std::move(request)),
      input_(agent.loop),
      out_{.pipe = OutputPipe(agent.loop),
           .store = OutputStore(agent.spool_folder.get(), output_limit)},
      err_{.pipe = OutputPipe(agent.loop),
           .store = OutputStore(agent.spool_folder.get(), output_limit)} {}

Result<void> CommandRun::start(bool with_input) {
  ASSIGN_OR_RETURN(const base::Fd out, out_.pipe.open_pipe());
  ASSIGN_OR_RETURN(const base::Fd err, err_.pipe.open_pipe());
  base::Fd input;
  if (with_input) {
    ASSIGN_OR_RETURN(input, input_.open_pipe());
  }
  RETURN_IF_ERROR(command_.start({.input = input ? input.get() : agent_.null_device.get(),
                                  .output = out.get(),
                                  .error = err.get()}));
  last_sign_ = steady_clock::now();
  watch_output(out_);
  watch_output(err_);
  return {};
}

void CommandRun::watch_client() {
  client_watch_.emplace(client_, [this] { leave(); });
}

void CommandRun::leave() {
  client_gone_ = true;
  command_.changed().notify();
}

void CommandRun::watch_output(Lane& lane) {
  lane.pipe.when_readable([this, &lane] {
    // One piece a turn: a flood must not keep the loop from the others.
    take_piece(lane, lane.pipe.piece_bytes());
    watch_output(lane);
  });
}

size_t CommandRun::take_piece(Lane& lane, size_t bytes_max) {
  if (const size_t moved = lane.store.take_from(lane.pipe.fd(), bytes_max); moved > 0) {
    lane.pipe.note_piece(moved);
    return moved;
  }
  const size_t size = std::min(bytes_max, lane.pipe.piece_bytes());
  const auto buffer = std::make_unique_for_overwrite<char[]>(size);
  const size_t count = lane.pipe.read({buffer.get(), size});
  if (count > 0) {
    lane.store.add({buffer.get(), count});
  }
  return count;
}

// What was in the pipe when the command ended still belongs to it; what its background children
// write from now on is dropped.
void CommandRun::drain(Lane& lane) {
  for (size_t left = lane.pipe.waiting(); left > 0;) {
    const size_t count = take_piece(lane, left);
    if (count == 0) {
      return;
    }
    left -= count;
  }
  if (lane.pipe.is_open()) {
    // The usual case: nobody else holds the other end, and this closes it.
    take_piece(lane, 1);
  }
}

net::Task<void> CommandRun::keep_awake() {
  last_sign_ = steady_clock::now();
  std::string bytes = head_written_ ? "" : chunked_answer_head();
  head_written_ = true;
  bytes += base::cat(wire::http::chunk_head(1), " \r\n");
  const auto written = co_await client_.write_all(bytes, kKeepAlive);
  client_gone_ = client_gone_ || !written;
}

net::Task<void> CommandRun::finish() {
  while (!command_.ended() && !must_stop()) {
    base::SteadyTime next = command_.time_out_at();
    if (keep_awake_) {
      next = std::min(next, last_sign_ + kKeepAlive);
    }
    [[maybe_unused]] const auto wake = co_await command_.changed().wait(Deadline::at(next));
    if (keep_awake_ && !command_.ended() && !must_stop() &&
        steady_clock::now() >= last_sign_ + kKeepAlive) {
      co_await keep_awake();
    }
  }
  if (!command_.ended()) {
    if (!client_gone_) {
      command_.note_time_out();
    }
    co_await command_.end_tree();
  }
  drain(out_);
  drain(err_);
  close();
  command_.let_go();
}

net::Task<void> CommandRun::finish_or_leave() {
  std::vector<net::Task<void>> tasks;
  tasks.push_back(finish());
  co_await run_uncancelled(agent_.loop, [this] { leave(); }, std::move(tasks));
}

void CommandRun::close() {
  client_watch_.reset();
  out_.pipe.close(&agent_.leftovers);
  err_.pipe.close(&agent_.leftovers);
  input_.close();
}

Result<RunOutcome> CommandRun::outcome() {
  ASSIGN_OR_RETURN(RunOutcome outcome, command_.outcome());
  err_.store.add(command_.complaint());
  return outcome;
}

}  // namespace agent
