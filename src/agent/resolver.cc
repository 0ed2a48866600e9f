#include "agent/resolver.h"

#include <arpa/inet.h>
#include <errno.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <optional>

#include "base/fd.h"
#include "base/sys.h"
#include "dns/message.h"

namespace agent {
namespace {

using base::ErrorCode;
using base::Result;
using net::Deadline;
using net::Task;

constexpr uint16_t kDnsPort = 53;
// A server that says nothing for so long is asked again after the others.
constexpr base::Milliseconds kServerPatience{1'200};
constexpr int kRounds = 2;

std::unexpected<base::Error> not_found(std::string_view host, std::string_view why) {
  auto error = base::fail(ErrorCode::conflict, "the name ", host, " cannot be resolved: ", why);
  error.error().details.emplace_back("reason", "name_not_found");
  return error;
}

// Words between blanks, up to a comment.
std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  line = line.substr(0, line.find_first_of("#;"));
  for (;;) {
    line.remove_prefix(std::min(line.find_first_not_of(" \t\r"), line.size()));
    if (line.empty()) {
      return words;
    }
    words.push_back(line.substr(0, line.find_first_of(" \t\r")));
    line.remove_prefix(words.back().size());
  }
}

HostAddress make_ipv4(uint32_t address) {
  HostAddress out;
  auto& inet = reinterpret_cast<sockaddr_in&>(out.storage);  // NOLINT: one of its kinds
  inet.sin_family = AF_INET;
  inet.sin_addr.s_addr = ::htonl(address);
  out.size = sizeof inet;
  return out;
}

std::string read_small_file(const std::string& path) {
  return base::sys::read_file(path, kResolverFileBytesMax).value_or("");
}

// The answer of one server to one query, or nothing where it gave none in time.
Task<std::optional<dns::Reply>> ask_server(net::EventLoop& loop, const HostAddress& server,
                                           const dns::Question& question, Deadline deadline) {
  const base::Fd socket(
      ::socket(server.storage.ss_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  uint16_t id = 0;
  if (!socket || ::getrandom(&id, sizeof id, 0) != sizeof id ||
      ::connect(socket.get(), server.get(), server.size) != 0) {
    co_return std::nullopt;
  }
  const std::string query = dns::make_query(id, question);
  if (::send(socket.get(), query.data(), query.size(), MSG_NOSIGNAL) < 0) {
    co_return std::nullopt;
  }
  const auto last = std::min(Deadline::after(kServerPatience).time(), deadline.time());
  std::optional<dns::Reply> reply;
  std::array<char, dns::kUdpBytesMax> buffer;
  while (!reply) {
    const auto wake =
        co_await loop.wait(socket.get(), net::EventLoop::Direction::read, Deadline::at(last));
    if (wake != net::EventLoop::Wake::ready) {
      break;
    }
    const ssize_t size = ::recv(socket.get(), buffer.data(), buffer.size(), 0);
    if (size < 0 && errno != EAGAIN) {
      break;  // nobody is there
    }
    auto parsed = dns::parse_reply({buffer.data(), static_cast<size_t>(std::max<ssize_t>(size, 0))},
                                   id, question);
    if (parsed) {
      reply = std::move(*parsed);
    }
  }
  loop.forget(socket.get());
  co_return reply;
}

// What any server says of the name; nothing where none said anything.
Task<std::optional<dns::Reply>> ask_servers(net::EventLoop& loop,
                                            const std::vector<HostAddress>& servers,
                                            std::string wire_name, Deadline deadline) {
  const dns::Question question{.wire_name = std::move(wire_name),
                               .type = static_cast<uint16_t>(dns::Type::a)};
  for (int round = 0; round < kRounds; ++round) {
    for (const HostAddress& server : servers) {
      auto reply = co_await ask_server(loop, server, question, deadline);
      const bool is_final =
          reply && (reply->code == dns::Code::no_error || reply->code == dns::Code::no_such_name);
      if (is_final) {
        co_return reply;
      }
    }
  }
  co_return std::nullopt;
}

// The name itself, or with the suffixes first where it is a single word.
std::vector<std::string> candidates_of(const std::string& name, const ResolverConfig& config) {
  std::vector<std::string> candidates{name};
  for (const std::string& suffix : config.search) {
    candidates.push_back(base::cat(name, ".", suffix));
  }
  if (!name.contains('.')) {
    std::ranges::rotate(candidates, candidates.begin() + 1);
  }
  return candidates;
}

}  // namespace

void HostAddress::set_port(uint16_t port) {
  if (storage.ss_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6&>(storage).sin6_port = ::htons(port);  // NOLINT: its kind
  } else {
    reinterpret_cast<sockaddr_in&>(storage).sin_port = ::htons(port);  // NOLINT: its kind
  }
}

uint16_t HostAddress::port() const {
  return ::ntohs(storage.ss_family == AF_INET6
                     ? reinterpret_cast<const sockaddr_in6&>(storage).sin6_port  // NOLINT: its kind
                     : reinterpret_cast<const sockaddr_in&>(storage).sin_port);  // NOLINT: its kind
}

std::string HostAddress::text() const {
  std::array<char, INET6_ADDRSTRLEN> buffer{};
  const bool is_6 = storage.ss_family == AF_INET6;
  const void* address =
      is_6 ? static_cast<const void*>(
                 &reinterpret_cast<const sockaddr_in6&>(storage).sin6_addr)  // NOLINT: its kind
           : static_cast<const void*>(
                 &reinterpret_cast<const sockaddr_in&>(storage).sin_addr);  // NOLINT: its kind
  const char* text = ::inet_ntop(is_6 ? AF_INET6 : AF_INET, address, buffer.data(), buffer.size());
  return text == nullptr ? "" : text;
}

std::optional<HostAddress> parse_address(std::string_view text) {
  const std::string copy(text);
  if (copy.contains('\0')) {
    return std::nullopt;
  }
  in_addr four{};
  if (::inet_pton(AF_INET, copy.c_str(), &four) == 1) {
    return make_ipv4(::ntohl(four.s_addr));
  }
  HostAddress out;
  auto& inet = reinterpret_cast<sockaddr_in6&>(out.storage);  // NOLINT: one of its kinds
  inet.sin6_family = AF_INET6;
  out.size = sizeof inet;
  return ::inet_pton(AF_INET6, copy.c_str(), &inet.sin6_addr) == 1 ? std::optional(out)
                                                                   : std::nullopt;
}

std::vector<HostAddress> find_in_hosts(std::string_view hosts, std::string_view name) {
  std::vector<HostAddress> found;
  for (const std::string_view line : base::split(hosts, '\n')) {
    const auto words = words_of(line);
    const auto is_name = [name](std::string_view word) {
      return base::equals_ignoring_case(word, name);
    };
    if (words.size() < 2 || found.size() == dns::kAddressesMax ||
        std::none_of(words.begin() + 1, words.end(), is_name)) {
      continue;
    }
    if (const auto address = parse_address(words.front())) {
      found.push_back(*address);
    }
  }
  return found;
}

ResolverConfig parse_resolver_config(std::string_view text) {
  ResolverConfig config;
  for (const std::string_view line : base::split(text, '\n')) {
    const auto words = words_of(line);
    if (words.size() < 2) {
      continue;
    }
    if (words.front() == "nameserver" && config.servers.size() < kServersMax) {
      if (auto server = parse_address(words[1])) {
        server->set_port(kDnsPort);
        config.servers.push_back(*server);
      }
    } else if (words.front() == "search" || words.front() == "domain") {
      const auto end =
          words.begin() + static_cast<ptrdiff_t>(std::min(words.size(), kSearchMax + 1));
      config.search.assign(words.begin() + 1, end);
    }
  }
  return config;
}

Task<Result<std::vector<HostAddress>>> resolve(net::EventLoop& loop, std::string host) {
  if (const auto address = parse_address(host)) {
    co_return std::vector{*address};
  }
  auto found = find_in_hosts(read_small_file("/etc/hosts"), host);
  if (found.empty() && base::equals_ignoring_case(host, "localhost")) {
    found.push_back(make_ipv4(INADDR_LOOPBACK));
  }
  if (!found.empty()) {
    co_return found;
  }
  while (host.ends_with('.')) {
    host.pop_back();
  }
  if (dns::wire_name(host).empty()) {
    co_return not_found(host, "it is not a host's name");
  }
  const auto config = parse_resolver_config(read_small_file("/etc/resolv.conf"));
  if (config.servers.empty()) {
    co_return not_found(host, "/etc/resolv.conf names no server");
  }
  const Deadline deadline = Deadline::after(kResolvePatience);
  bool was_answered = false;
  for (const std::string& candidate : candidates_of(host, config)) {
    std::string wire_name = dns::wire_name(candidate);
    if (wire_name.empty()) {
      continue;  // too long with its suffix
    }
    const auto reply = co_await ask_servers(loop, config.servers, std::move(wire_name), deadline);
    was_answered = was_answered || reply;
    if (reply && !reply->addresses.empty()) {
      for (const dns::Address& address : reply->addresses) {
        found.push_back(make_ipv4(address.address));
      }
      co_return found;
    }
  }
  co_return not_found(host, was_answered ? "there is no such name" : "no server answered");
}

}  // namespace agent
