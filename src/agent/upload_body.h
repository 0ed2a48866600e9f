// The body of an upload in large pieces, as fast as its taker works it off. Others get their turn
// between two pieces. Holds one buffer of kUploadBytes.
#pragma once

#include <functional>
#include <string_view>

#include "base/error.h"
#include "net/http.h"

namespace agent {

using base::Result;

// Sends "100 Continue" where the client waits for it. `take` gets every byte in order; its error
// ends the receiving.
net::Task<Result<void>> receive_body(net::Stream& client, net::HttpReader& reader,
                                     const wire::http::Request& request,
                                     const std::function<Result<void>(std::string_view)>& take);

}  // namespace agent
