#include "node/resolv.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <vector>

#include "base/sys.h"
#include "base/text.h"

namespace node {
namespace {

// What resolvers read: MAXNS of resolv.h, and six search domains of 256 characters in all.
constexpr size_t kServersMax = 3;
constexpr size_t kSearchDomainsMax = 6;
constexpr size_t kSearchBytesMax = 256;
constexpr size_t kOptionsBytesMax = 256;
constexpr size_t kFileBytesMax = size_t{64} * 1024;

struct Parsed {
  std::vector<std::string> servers;
  std::string search;
  std::string options;
};

std::vector<std::string_view> words(std::string_view line) {
  std::vector<std::string_view> found;
  while (!line.empty()) {
    const auto start = line.find_first_not_of(" \t\r");
    if (start == std::string_view::npos) {
      break;
    }
    line.remove_prefix(start);
    const auto end = std::min(line.find_first_of(" \t\r"), line.size());
    found.push_back(line.substr(0, end));
    line.remove_prefix(end);
  }
  return found;
}

// An IPv4 address that a sandbox can reach: not on loopback, not "any".
bool is_usable_server(std::string_view text) {
  in_addr address{};
  if (::inet_pton(AF_INET, std::string(text).c_str(), &address) != 1) {
    return false;
  }
  const auto first = ntohl(address.s_addr) >> 24;
  return first != 127 && first != 0;
}

// The host's file is trusted, but a stray byte in it must not become a line of its own.
bool is_plain(std::string_view word) {
  return std::ranges::all_of(word, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '-' || c == '_' || c == ':';
  });
}

std::string join(const std::vector<std::string_view>& parts, size_t parts_max, size_t bytes_max) {
  std::string joined;
  for (size_t i = 1; i < parts.size() && i <= parts_max; ++i) {
    if (is_plain(parts[i]) && joined.size() + parts[i].size() < bytes_max) {
      joined += base::cat(' ', parts[i]);
    }
  }
  return joined;
}

Parsed parse(std::string_view text) {
  Parsed parsed;
  for (const auto line : base::split(text, '\n')) {
    const auto parts = words(line);
    if (parts.size() < 2) {
      continue;
    }
    if (parts[0] == "nameserver" && is_usable_server(parts[1]) &&
        parsed.servers.size() < kServersMax) {
      parsed.servers.emplace_back(parts[1]);
    } else if (parts[0] == "search" || parts[0] == "domain") {
      parsed.search = join(parts, kSearchDomainsMax, kSearchBytesMax);
    } else if (parts[0] == "options") {
      parsed.options = join(parts, kOptionsBytesMax, kOptionsBytesMax);
    }
  }
  return parsed;
}

}  // namespace

std::string sandbox_resolv_conf(std::string_view host, std::string_view systemd_resolved) {
  auto parsed = parse(host);
  if (parsed.servers.empty()) {
    parsed.servers = parse(systemd_resolved).servers;
  }
  std::string text;
  if (!parsed.search.empty()) {
    text += base::cat("search", parsed.search, '\n');
  }
  for (const auto& server : parsed.servers) {
    text += base::cat("nameserver ", server, '\n');
  }
  if (!parsed.options.empty()) {
    text += base::cat("options", parsed.options, '\n');
  }
  return text;
}

std::string read_resolv_conf() {
  const auto host = base::sys::read_file("/etc/resolv.conf", kFileBytesMax);
  const auto upstream = base::sys::read_file("/run/systemd/resolve/resolv.conf", kFileBytesMax);
  return sandbox_resolv_conf(host.value_or(""), upstream.value_or(""));
}

}  // namespace node
