// Answers that every route of the agent gives in the same way: JSON, errors, "go on". Functions of
// a connection's coroutine.
#pragma once

#include <string>

#include "base/error.h"
#include "net/http.h"

namespace agent {

using base::ErrorCode;
using base::Result;
using net::Task;

// A client that takes nothing of a short answer for so long is gone.
inline constexpr base::Milliseconds kAnswerPatience{60'000};
// How long each piece of a body may take to arrive.
inline constexpr base::Milliseconds kBodyPatience{120'000};

Task<Result<void>> write_json(net::Stream& stream, int status, std::string body);
Task<Result<void>> write_no_content(net::Stream& stream);
// The error's body and status. `head_only`: the request was a HEAD. `keep`: the connection goes on.
Task<Result<void>> write_error(net::Stream& stream, base::Error error, std::string request_id,
                               bool head_only, bool keep);
// The body of a request of at most `bytes_max`; says "100 Continue" where the client waits for it.
Task<Result<std::string>> read_body(net::Stream& stream, net::HttpReader& reader,
                                    const wire::http::Request& request, size_t bytes_max);
// "100 Continue" where the client waits for it.
Task<Result<void>> ask_for_body(net::Stream& stream, const wire::http::Request& request);
// The connection is of no more use; there is nobody to answer.
bool connection_is_lost(ErrorCode code);

}  // namespace agent
