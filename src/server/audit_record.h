// The one place where a request becomes a row of the audit log: what the route table and the
// handler said of it, who called, and how it ended.
#pragma once

#include "server/application.h"
#include "server/exchange.h"

namespace server {

// Of a request that ends with an error; a refused token becomes an event of its own.
void note_error(Exchange& exchange, const Error& error);
// How a command ended, from the last of its frames: an exit and a close.
void note_command_end(Exchange& exchange, std::string_view frames);

// How a run ended, from the first bytes of its answer's JSON: an agent begins it with exit_code,
// signal, timed_out and oom_killed (api/agent-protocol.md). Other bytes leave the row without it.
void note_run_result(Exchange& exchange, std::string_view json);
// The code of an agent's error answer, and the id of a session that it started, from its JSON.
void note_agent_error(Exchange& exchange, std::string_view json);
void note_session_id(Exchange& exchange, std::string_view json);
// Before its work is done, with what is known of it by then; does nothing for what has no row, and
// the second time.
void begin_action(Application& application, Exchange& exchange);
// Whether begin_action is the relay's: what goes to an agent is noted once its command is known.
bool is_agents_work(const service::AuditRecord& record);
// Once for each request, when its answer is out.
void record_action(Application& application, Exchange& exchange, base::SteadyTime::duration took);

}  // namespace server
