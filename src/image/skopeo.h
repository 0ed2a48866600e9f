// Fetching from a registry by `skopeo`: one process a call, under ids of its own inside the
// confinement, credentials in a file in private memory. Blocks until the process ends (bounded by
// the node, which ends this whole program). Errors carry the API's reasons.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <string_view>

#include "image/failure.h"

namespace image {

// The ids inside the confinement that skopeo runs under: the node's firewall keeps both off
// link-local addresses, and the second off loopback as well.
inline constexpr uid_t kFetchUid = 1;
inline constexpr uid_t kFetchAwayFromLoopbackUid = 2;

struct RegistrySource {
  std::string repository;  // "localhost:5000/team/app"
  bool plain_http = false;
  std::string auth_file;   // "" for none
  bool is_mirror = false;  // not worth a second try: the registry itself comes next
};

// Whether that host ("127.0.0.1:5000", "localhost", "[::1]") is this machine's loopback, or a
// link-local address, by its spelling.
bool is_loopback(std::string_view host);
bool is_link_local(std::string_view host);

// Called a few times a second while skopeo runs, with what it waits for: "" or that the registry
// limits the rate of requests (429; it tries again after what Retry-After says, at most a minute).
using OnTick = std::function<void(const std::string& notice)>;

// The registry's manifest of ":tag" or "@digest", as the bytes it is.
Result<std::string> fetch_manifest(const RegistrySource& source, const std::string& version,
                                   const OnTick& on_tick);
// The blobs of one manifest into `folder` (made fresh), each in a file of its digest's hex digits.
Result<void> fetch_blobs(const RegistrySource& source, const std::string& digest,
                         const std::string& folder, const OnTick& on_tick);

// What its debug output so far says that it waits for, as OnTick is told.
std::string notice_in(std::string_view output);

// What skopeo's standard error says, as reason and sentence. `what` names the image.
Error explain_failure(std::string_view output, std::string_view what);

}  // namespace image
