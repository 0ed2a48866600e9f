// The answer to a run: its JSON, built whole when small, else streamed from the spooled output.
#pragma once

#include <cstdint>
#include <string>

#include "agent/command.h"
#include "agent/output_store.h"
#include "agent/run_request.h"
#include "net/stream.h"

namespace agent {

// The head of an answer whose length is not known.
std::string chunked_answer_head();

// `head_written`: keep-alives were sent, the chunked body is already begun.
net::Task<Result<void>> write_run_answer(net::Stream& client, const RunOutcome& outcome,
                                         const OutputStore& out, const OutputStore& err,
                                         OutputEncoding encoding, bool head_written);
// The end of an answer whose command failed after the head was written.
net::Task<Result<void>> write_late_error(net::Stream& client, const base::Error& error,
                                         std::string request_id);

}  // namespace agent
