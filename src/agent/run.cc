#include "agent/run.h"

#include "agent/command_run.h"
#include "agent/run_answer.h"
#include "agent/run_request.h"
#include "net/task_group.h"

namespace agent {

Task<Result<void>> run_command(Agent& agent, net::Stream& stream, std::string body,
                               std::string request_id) {
  CO_ASSIGN_OR_RETURN(RunRequest request, parse_run_request(body));
  body = std::string();
  CommandRun run(agent, stream, std::move(request));
  CO_RETURN_IF_ERROR(run.start());
  net::Cancellation* outer = co_await net::current_cancellation();
  {
    // The command's end is waited for even when the connection is given up: its tree must go.
    std::optional<net::Cancellation::Callbacks::iterator> on_cancel;
    if (outer != nullptr && outer->requested()) {
      run.leave();
    } else if (outer != nullptr) {
      on_cancel = outer->add([&run, &on_cancel] {
        on_cancel.reset();
        run.leave();
      });
    }
    net::TaskGroup group(agent.loop);
    group.spawn(run.finish());
    co_await group.join();
    if (on_cancel) {
      outer->remove(*on_cancel);
    }
  }
  if (run.client_gone()) {
    co_return base::fail(ErrorCode::connection_closed, "the client left during the command");
  }
  const auto outcome = run.outcome();
  if (!outcome && !run.head_written()) {
    co_return std::unexpected(outcome.error());
  }
  if (!outcome) {
    co_return co_await write_late_error(stream, outcome.error(), std::move(request_id));
  }
  co_return co_await write_run_answer(stream, *outcome, run.output(), run.error(), run.encoding(),
                                      run.head_written());
}

}  // namespace agent
