#include "node/name_server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include "base/host.h"
#include "base/sys.h"
#include "jail/confined_process.h"

namespace node {

using base::Fd;
using base::Result;
using wire::json::Object;
using wire::json::Reader;

namespace {

constexpr uint16_t kDnsPort = 53;
constexpr size_t kServersMax = 3;  // as resolv.conf's
constexpr size_t kResolvBytesMax = size_t{64} * 1024;
constexpr const char* kResolvConf = "/etc/resolv.conf";
// Of one answer, as the name server's own bound.
constexpr size_t kAddressesMax = 64;
constexpr int64_t kHoldSecondsMax = 3600;
// One that ends at once is started ever less often.
constexpr base::Milliseconds kFirstPause{100};
constexpr base::Milliseconds kPauseMax{5'000};

Result<Fd> connect_to_server(const NameServerAddress& server, bool stream) {
  Fd socket(
      ::socket(AF_INET, (stream ? SOCK_STREAM : SOCK_DGRAM) | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(server.port);
  address.sin_addr.s_addr = htonl(server.address);
  if (!socket ||
      (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 &&
       errno != EINPROGRESS)) {
    return base::fail_errno(errno, "connect to the name server");
  }
  return socket;
}

Result<Fd> duplicate(const Fd& socket) {
  Fd copy(::fcntl(socket.get(), F_DUPFD_CLOEXEC, 0));
  if (!copy) {
    return base::fail_errno(errno, "duplicate a socket");
  }
  return copy;
}

// "192.0.2.7 60"
Result<Egress::Answer> parse_answer(std::string_view text) {
  const auto parts = base::split(text, ' ');
  const auto address = model::parse_ipv4(parts.front());
  const auto seconds = base::parse_number<int64_t>(parts.back());
  if (parts.size() != 2 || !address || !seconds || *seconds < 1 || *seconds > kHoldSecondsMax ||
      model::is_never_reachable(*address) || model::is_private(*address)) {
    return base::fail(base::ErrorCode::malformed, "an address that a name cannot open");
  }
  return Egress::Answer{.address = *address, .holds = std::chrono::seconds(*seconds)};
}

}  // namespace

Result<std::vector<NameServerAddress>> parse_name_servers(std::string_view text) {
  std::vector<NameServerAddress> servers;
  if (text.empty()) {
    return servers;
  }
  for (const std::string_view part : base::split(text, ',')) {
    const size_t colon = part.find(':');
    const auto address = model::parse_ipv4(part.substr(0, colon));
    const auto port = colon == std::string_view::npos ? std::optional(kDnsPort)
                                                      : base::parse_port(part.substr(colon + 1));
    if (!address || !port || servers.size() == kServersMax) {
      return base::fail_field("dns_servers", "\"", text, "\" is not one to ", kServersMax,
                              " IPv4 addresses, each with :PORT or without");
    }
    servers.push_back({.address = *address, .port = *port});
  }
  return servers;
}

std::vector<NameServerAddress> name_servers_of(std::string_view resolv_conf) {
  constexpr std::string_view kKey = "nameserver";
  std::vector<NameServerAddress> servers;
  for (const std::string_view line : base::split(resolv_conf, '\n')) {
    if (!line.starts_with(kKey) || servers.size() == kServersMax) {
      continue;
    }
    if (const auto address = model::parse_ipv4(base::trim(line.substr(kKey.size())))) {
      servers.push_back({.address = *address, .port = kDnsPort});
    }
  }
  return servers;
}

Result<std::unique_ptr<NameServer>> NameServer::open(net::EventLoop& loop, Network& network,
                                                     NameServerOptions options, base::Log& log) {
  ASSIGN_OR_RETURN(auto servers, parse_name_servers(options.servers));
  std::unique_ptr<NameServer> opened(new NameServer(loop, network, std::move(options), log));
  opened->servers_ = std::move(servers);
  network.on_policy(
      [self = opened.get()](const std::string& sandbox, const model::NetworkPolicy* policy) {
        self->note_policy(sandbox, policy);
      });
  return opened;
}

void NameServer::start() { group_.spawn(keep_running()); }

net::Task<void> NameServer::stop() {
  network_.on_policy({});
  group_.cancel();
  co_await group_.join();
}

void NameServer::note_policy(const std::string& sandbox, const model::NetworkPolicy* policy) {
  Object line{{"sandbox", sandbox}};
  if (policy == nullptr) {
    policies_.erase(sandbox);
  } else {
    policies_[sandbox] = model::to_text(*policy);
    line["network"] = policies_[sandbox];
  }
  if (lines_) {
    // One that does not take it is broken, which is noticed where its lines are read.
    [[maybe_unused]] const auto sent = lines_->send(std::move(line));
  }
}

net::Task<void> NameServer::keep_running() {
  const auto* cancellation = co_await net::current_cancellation();
  base::Milliseconds pause = kFirstPause;
  while (!cancellation->requested()) {
    const auto began = std::chrono::steady_clock::now();
    const auto ended = co_await serve_once();
    lines_.reset();
    if (cancellation->requested()) {
      break;
    }
    log_.warning("the name server of allow-lists ended",
                 {{"error", ended ? "" : ended.error().message}});
    if (std::chrono::steady_clock::now() - began > kPauseMax) {
      pause = kFirstPause;
    }
    [[maybe_unused]] const auto wake = co_await loop_.sleep_until(net::Deadline::after(pause));
    pause = std::min(pause * 2, kPauseMax);
  }
}

net::Task<Result<void>> NameServer::serve_once() {
  CO_ASSIGN_OR_RETURN(
      auto process,
      jail::ConfinedProcess::start(
          {.program = options_.helper, .id_base = options_.id, .ids = 1, .own_network = true}));
  CO_RETURN_IF_ERROR(base::sys::set_nonblocking(process.control.get()));
  lines_ = std::make_unique<net::JsonLines>(loop_, std::move(process.control));
  CO_RETURN_IF_ERROR(send_policies());
  while (true) {
    CO_ASSIGN_OR_RETURN(const auto line, co_await lines_->read(net::Deadline::never()));
    if (!line) {
      co_return base::fail(base::ErrorCode::connection_closed, "it has closed its socket");
    }
    CO_RETURN_IF_ERROR(take_line(line->object));
  }
}

// All policies first, so that no query meets a server that does not know its sandbox.
Result<void> NameServer::send_policies() {
  for (const auto& [sandbox, policy] : policies_) {
    RETURN_IF_ERROR(lines_->send({{"sandbox", sandbox}, {"network", policy}}));
  }
  std::vector<Fd> sockets;
  const NameSockets& all = network_.name_sockets();
  for (const Fd* socket : {&all.udp, &all.tcp, &all.refused}) {
    if (!*socket) {
      continue;
    }
    ASSIGN_OR_RETURN(auto copy, duplicate(*socket));
    sockets.push_back(std::move(copy));
  }
  return lines_->send({{"serve", true}}, std::move(sockets));
}

Result<void> NameServer::take_line(const Object& line) {
  Reader reader(line);
  ASSIGN_OR_RETURN(const auto refused, reader.optional<std::string>("refused"));
  if (refused) {
    return take_refusal(reader, *refused);
  }
  ASSIGN_OR_RETURN(const auto call, reader.required<int64_t>("call"));
  ASSIGN_OR_RETURN(const auto server, reader.optional<int64_t>("server"));
  ASSIGN_OR_RETURN(const auto addresses, reader.optional<std::vector<std::string>>("open"));
  Object answer{{"call", call}};
  std::vector<Fd> sockets;
  Result<void> done;
  if (server) {
    auto socket = make_socket(reader, *server);
    if (socket) {
      sockets.push_back(std::move(*socket));
    } else {
      done = std::unexpected(socket.error());
    }
  } else {
    done = open_addresses(reader, addresses.value_or(std::vector<std::string>{}));
  }
  if (!done) {
    answer["error"] = done.error().message;
  }
  return lines_->send(std::move(answer), std::move(sockets));
}

Result<void> NameServer::take_refusal(Reader& reader, const std::string& sandbox) {
  const auto address = model::parse_ipv4(sandbox);
  if (!address) {
    return base::fail(base::ErrorCode::malformed, "a refusal to nobody");
  }
  ASSIGN_OR_RETURN(const Refusal refusal, parse_refusal(reader));
  if (refusal_listener_) {
    refusal_listener_(*address, refusal);
  }
  return {};
}

// The host's list is read anew each time: it may change while sandboxes run.
Result<Fd> NameServer::make_socket(Reader& reader, int64_t server) {
  ASSIGN_OR_RETURN(const auto stream, reader.required<bool>("stream"));
  std::vector<NameServerAddress> servers = servers_;
  if (servers.empty()) {
    ASSIGN_OR_RETURN(const std::string text, base::sys::read_file(kResolvConf, kResolvBytesMax));
    servers = name_servers_of(text);
  }
  if (servers.empty() || server < 0) {
    return base::fail(base::ErrorCode::unavailable, "the host has no name server");
  }
  return connect_to_server(servers[static_cast<size_t>(server) % servers.size()], stream);
}

Result<void> NameServer::open_addresses(Reader& reader, const std::vector<std::string>& addresses) {
  ASSIGN_OR_RETURN(const auto sandbox, reader.required<std::string>("sandbox"));
  ASSIGN_OR_RETURN(const auto name, reader.required<std::string>("name"));
  const auto address = model::parse_ipv4(sandbox);
  if (!address || name.size() > base::kHostNameBytesMax || addresses.size() > kAddressesMax) {
    return base::fail(base::ErrorCode::malformed, "a request that is out of bounds");
  }
  std::vector<Egress::Answer> answers;
  for (const std::string& text : addresses) {
    ASSIGN_OR_RETURN(const auto answer, parse_answer(text));
    answers.push_back(answer);
  }
  return network_.learn(*address, name, answers);
}

}  // namespace node
