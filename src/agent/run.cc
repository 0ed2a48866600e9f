#include "agent/run.h"

#include "agent/command_run.h"
#include "agent/run_answer.h"
#include "agent/run_request.h"
#include "base/fault.h"

namespace agent {

Task<Result<void>> run_command(Agent& agent, net::Stream& stream, std::string body,
                               std::string request_id) {
  CO_ASSIGN_OR_RETURN(RunRequest request, parse_run_request(body));
  body = std::string();
  const OutputEncoding encoding = request.encoding;
  std::string input = std::move(request.input);
  CommandRun run(agent, stream, std::move(request), kOutputBytesMax);
  CO_RETURN_IF_ERROR(run.start(!input.empty()));
  base::fault_point("agent.run.started");
  run.watch_client();
  run.keep_client_awake();
  run.input().add(std::move(input));
  run.input().finish();
  co_await run.finish_or_leave();
  base::fault_point("agent.run.ended");
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
  co_return co_await write_run_answer(stream, *outcome, run.output(), run.error(), encoding,
                                      run.head_written());
}

}  // namespace agent
