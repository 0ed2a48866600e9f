// DELETE /files and POST /files/mkdir, move, chmod: changes of names, modes and owners, made with
// the acting user's rights. Coroutines of their connection; long ones work in slices, so that
// others get their turn. A change that fails midway stays as far as it went.
#pragma once

#include "agent/file_request.h"
#include "net/stream.h"

namespace agent {

// A folder only with `recursive`; never across a mount. A link at the end is removed itself.
net::Task<Result<void>> remove_file(net::Stream& client, FileRequest request);
// One that is there already is fine and stays as it is; missing parents are made.
net::Task<Result<void>> make_folder(net::Stream& client, FileRequest request);
// To exactly `to`, whose missing parents are made; what is there stays but for `overwrite`.
net::Task<Result<void>> move_file(net::Stream& client, FileRequest request);
// A link at the end is followed; those met on the way (`recursive`) keep their mode.
net::Task<Result<void>> change_mode(net::Stream& client, FileRequest request);

}  // namespace agent
