// The sandbox's /etc/resolv.conf: the host's real upstream resolvers, never a loopback stub.
// Pure text in, text out; at most three nameservers, as resolvers read no more. IPv6 servers are
// left out: a sandbox has no IPv6. Without any, the file has no nameserver line.
#pragma once

#include <string>
#include <string_view>

namespace node {

// From the text of the host's /etc/resolv.conf and, used if that names loopback servers only, of
// /run/systemd/resolve/resolv.conf (empty if absent).
std::string sandbox_resolv_conf(std::string_view host, std::string_view systemd_resolved);
// The same, reading the two files.
std::string read_resolv_conf();

}  // namespace node
