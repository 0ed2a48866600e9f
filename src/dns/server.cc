#include "dns/server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <optional>

#include "base/counted.h"
#include "base/random.h"
#include "net/listener.h"
#include "net/stream.h"

namespace dns {

using base::Error;
using base::ErrorCode;
using base::Fd;
using base::Result;
using net::Deadline;
using net::Task;
using wire::json::Object;

namespace {

constexpr size_t kUnderWayMax = 1024;
constexpr size_t kUnderWayOfOneMax = 64;
constexpr size_t kConnectionsMax = 256;
constexpr size_t kConnectionsOfOneMax = 16;
// Of one sandbox, sustained and at once: an installer of packages asks some ten names a second.
constexpr double kQueriesPerSecond = 100;
constexpr double kQueriesAtOnce = 300;
// Read before others get their turn.
constexpr int kDatagramsAtOnce = 64;
// A client gives up after 5 s and asks again: two servers are tried in that time.
constexpr base::Milliseconds kServerPatience{2'000};
constexpr int64_t kServerTries = 3;
constexpr base::Milliseconds kNodePatience{2'000};
constexpr base::Milliseconds kStreamIdle{10'000};
// A sandbox asks as soon as it runs; its policy may still be on its way here.
constexpr base::Milliseconds kPolicyPatience{200};
constexpr size_t kLengthBytes = 2;

std::string length_prefix(size_t size) {
  return {static_cast<char>(size >> 8), static_cast<char>(size & 0xff)};
}

Reply failure(Code code) { return Reply{.code = code}; }

uint16_t random_id() {
  std::array<unsigned char, 2> bytes{};
  base::KernelRandom().fill(bytes);
  return static_cast<uint16_t>(bytes[0] << 8 | bytes[1]);
}

Task<Result<std::string>> read_exactly(net::Stream& stream, size_t size, Deadline deadline) {
  std::string bytes(size, '\0');
  size_t got = 0;
  while (got < size) {
    const auto count = co_await stream.read_some(std::span(bytes).subspan(got), deadline);
    if (!count) {
      co_return std::unexpected(count.error());
    }
    if (*count == 0) {
      co_return base::fail(ErrorCode::connection_closed, "the peer has closed");
    }
    got += *count;
  }
  co_return bytes;
}

// One message off a TCP connection: its length goes before it.
Task<Result<std::string>> read_message(net::Stream& stream, Deadline deadline) {
  CO_ASSIGN_OR_RETURN(const std::string length,
                      co_await read_exactly(stream, kLengthBytes, deadline));
  const size_t size =
      static_cast<size_t>(static_cast<uint8_t>(length[0])) << 8 | static_cast<uint8_t>(length[1]);
  co_return co_await read_exactly(stream, size, deadline);
}

uint32_t peer_of(const Fd& socket) {
  sockaddr_in peer{};
  socklen_t size = sizeof peer;
  ::getpeername(socket.get(), reinterpret_cast<sockaddr*>(&peer), &size);
  return peer.sin_family == AF_INET ? ntohl(peer.sin_addr.s_addr) : 0;
}

}  // namespace

Reply filter_reply(Reply reply, const model::AllowList& list, std::vector<Address>& to_open) {
  std::vector<Address> kept;
  for (Address address : reply.addresses) {
    const bool is_named = list.allows_address(address.address);
    if (model::is_never_reachable(address.address) ||
        (!is_named && model::is_private(address.address))) {
      continue;
    }
    address.ttl_sec = std::min(address.ttl_sec, kHoldSecondsMax);
    kept.push_back(address);
    if (!is_named) {
      to_open.push_back(
          {.address = address.address, .ttl_sec = std::max(address.ttl_sec, kHoldSecondsMin)});
    }
  }
  if (kept.empty() && !reply.addresses.empty()) {
    return failure(Code::no_such_name);
  }
  // An alias that holds longer than the addresses would keep a client from asking again.
  for (Reply::Alias& alias : reply.aliases) {
    alias.ttl_sec = std::min(alias.ttl_sec, kHoldSecondsMax);
  }
  reply.addresses = std::move(kept);
  return reply;
}

void Server::run() {
  group_.spawn(serve());
  loop_.run();
}

Task<void> Server::serve() {
  while (true) {
    auto line = co_await lines_.read(Deadline::never());  // ends with the node
    if (!line || !*line || !take_line(std::move(**line))) {
      break;
    }
  }
  loop_.stop();  // and with it the process; nothing here outlives the node
}

Result<void> Server::take_line(net::JsonLines::Line line) {
  wire::json::Reader reader(line.object);
  ASSIGN_OR_RETURN(const auto sandbox, reader.optional<std::string>("sandbox"));
  ASSIGN_OR_RETURN(const auto number, reader.optional<int64_t>("call"));
  if (sandbox) {
    const auto address = model::parse_ipv4(*sandbox);
    ASSIGN_OR_RETURN(const auto network, reader.optional<std::string>("network"));
    if (!address || !network) {
      sandboxes_.erase(address.value_or(0));
      return {};
    }
    ASSIGN_OR_RETURN(const auto policy, model::parse_network_policy(*network));
    SandboxPointer& known = sandboxes_[*address];
    if (!known) {
      known = std::make_shared<Sandbox>(Sandbox{.allowance = kQueriesAtOnce});
    }
    known->list = model::allow_list(policy);
    return {};
  }
  if (number) {
    const auto found = calls_.find(*number);
    if (found != calls_.end()) {
      const auto call = found->second;
      calls_.erase(found);
      call->ended = true;
      call->failed = line.object.contains("error");
      if (!line.fds.empty()) {
        call->socket = std::move(line.fds.front());
      }
      call->done.notify();
    }
    return {};
  }
  if (line.fds.size() < 2 || line.fds.size() > 3 || udp_) {
    return base::fail(ErrorCode::malformed, "a line of an unknown kind");
  }
  udp_ = std::move(line.fds[0]);
  tcp_ = std::move(line.fds[1]);
  if (line.fds.size() == 3) {
    refusals_.serve(std::move(line.fds[2]));
  }
  wait_for_datagrams();
  group_.spawn(accept_streams());
  return {};
}

Server::SandboxPointer Server::find(uint32_t from) const {
  const auto found = sandboxes_.find(from);
  return found == sandboxes_.end() ? nullptr : found->second;
}

bool Server::admit(Sandbox& sandbox) {
  const auto now = std::chrono::steady_clock::now();
  const std::chrono::duration<double> passed = now - sandbox.counted;
  sandbox.counted = now;
  sandbox.allowance =
      std::min(kQueriesAtOnce, sandbox.allowance + passed.count() * kQueriesPerSecond);
  if (sandbox.allowance < 1 || sandbox.under_way >= kUnderWayOfOneMax ||
      under_way_ >= kUnderWayMax) {
    return false;
  }
  sandbox.allowance -= 1;
  return true;
}

void Server::wait_for_datagrams() {
  loop_.watch(udp_.get(), net::EventLoop::Direction::read, [this] {
    read_datagrams();
    wait_for_datagrams();
  });
}

void Server::read_datagrams() {
  for (int i = 0; i < kDatagramsAtOnce; ++i) {
    // A query is a name and a few options: what is longer than any answer is none.
    std::array<char, kUdpBytesMax> buffer;
    sockaddr_in from{};
    socklen_t size = sizeof from;
    const ssize_t got = ::recvfrom(udp_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT,
                                   reinterpret_cast<sockaddr*>(&from), &size);
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      return;
    }
    if (under_way_ < kUnderWayMax) {
      group_.spawn(answer_datagram(std::string(buffer.data(), static_cast<size_t>(got)),
                                   ntohl(from.sin_addr.s_addr), from.sin_port));
    }
  }
}

Task<void> Server::answer_datagram(std::string bytes, uint32_t from, uint16_t port) {
  const std::string answered = co_await answer(bytes, from, false);
  if (!answered.empty()) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = port;
    to.sin_addr.s_addr = htonl(from);
    // What does not go out is lost on the way; the client asks again.
    [[maybe_unused]] const auto sent =
        ::sendto(udp_.get(), answered.data(), answered.size(), MSG_DONTWAIT,
                 reinterpret_cast<const sockaddr*>(&to), sizeof to);
  }
}

Task<void> Server::accept_streams() {
  net::Listener listener(loop_, std::move(tcp_));
  while (true) {
    auto socket = co_await listener.accept();
    if (!socket) {
      break;
    }
    const uint32_t from = peer_of(*socket);
    const SandboxPointer sandbox = find(from);
    if (sandbox && sandbox->connections < kConnectionsOfOneMax && connections_ < kConnectionsMax) {
      group_.spawn(serve_stream(std::move(*socket), sandbox, from));
    }
  }
}

Task<void> Server::serve_stream(Fd socket, SandboxPointer sandbox, uint32_t from) {
  const base::Counted all(connections_);
  const base::Counted own(sandbox->connections);
  net::Stream stream(loop_, std::move(socket));
  while (true) {
    const auto message = co_await read_message(stream, Deadline::after(kStreamIdle));
    if (!message) {
      break;
    }
    const std::string answered = co_await answer(*message, from, true);
    if (answered.empty()) {
      break;
    }
    const auto sent =
        co_await stream.write_all(length_prefix(answered.size()), answered, kStreamIdle);
    if (!sent) {
      break;
    }
  }
}

Task<std::string> Server::answer(std::string_view bytes, uint32_t from, bool over_stream) {
  const base::Counted all(under_way_);
  SandboxPointer sandbox = find(from);
  if (!sandbox) {
    [[maybe_unused]] const auto wake = co_await loop_.sleep_until(Deadline::after(kPolicyPatience));
    sandbox = find(from);
  }
  if (sandbox && !admit(*sandbox)) {
    co_return std::string();
  }
  const auto query = parse_query(bytes);
  if (!query) {
    uint16_t id = 0;
    co_return parse_id(bytes, id) ? make_error(id, Code::format_error) : std::string();
  }
  const size_t bytes_max = over_stream ? kMessageBytesMax : query->udp_bytes_max;
  if (!sandbox) {
    co_return make_answer(*query, failure(Code::refused), bytes_max);
  }
  const base::Counted own(sandbox->under_way);
  const Reply reply = co_await resolve(query->question, *sandbox, from);
  co_return make_answer(*query, reply, bytes_max);
}

// A name that is not allowed does not exist: programs fail at once, and go on along their search
// list. It is not asked for either, so nothing leaves by way of a question. Of an allowed one there
// are IPv4 addresses only.
Task<Reply> Server::resolve(const Question& question, Sandbox& sandbox, uint32_t from) {
  const std::string name = host_name(question.wire_name);
  if (name.empty() || !sandbox.list.allows_name(name)) {
    if (!name.empty()) {
      refusals_.note_name(from, name, false);
    }
    co_return failure(Code::no_such_name);
  }
  if (question.type != static_cast<uint16_t>(Type::a)) {
    co_return Reply{};
  }
  auto reply = co_await ask_servers(question);
  if (!reply) {
    co_return failure(Code::server_failure);
  }
  std::vector<Address> to_open;
  const bool had_addresses = !reply->addresses.empty();
  Reply filtered = filter_reply(std::move(*reply), sandbox.list, to_open);
  if (had_addresses && filtered.addresses.empty()) {
    refusals_.note_name(from, name, true);
  }
  if (!to_open.empty()) {
    wire::json::Array addresses;
    for (const Address& address : to_open) {
      addresses.emplace_back(base::cat(model::ipv4_text(address.address), " ", address.ttl_sec));
    }
    Object request{
        {"sandbox", model::ipv4_text(from)}, {"name", name}, {"open", std::move(addresses)}};
    const auto opened = co_await call_node(std::move(request));
    if (!opened) {
      co_return failure(Code::server_failure);
    }
  }
  co_return filtered;
}

Task<Result<Reply>> Server::ask_servers(const Question& question) {
  Result<Reply> reply = base::fail(ErrorCode::unavailable, "no name server");
  for (int64_t server = 0; server < kServerTries; ++server) {
    reply = co_await ask_one(question, server, false);
    if (reply && reply->truncated) {
      reply = co_await ask_one(question, server, true);
    }
    if (reply && (reply->code == Code::no_error || reply->code == Code::no_such_name)) {
      break;
    }
    if (reply) {
      reply = base::fail(ErrorCode::unavailable, "the name server failed");
    }
  }
  co_return reply;
}

// A socket of its own, and so a port that nobody can guess.
Task<Result<Reply>> Server::ask_one(const Question& question, int64_t server, bool over_stream) {
  Object request{{"server", server}, {"stream", over_stream}};
  CO_ASSIGN_OR_RETURN(Fd socket, co_await call_node(std::move(request)));
  net::Stream stream(loop_, std::move(socket));
  const uint16_t id = random_id();
  const std::string query = make_query(id, question);
  const Deadline deadline = Deadline::after(kServerPatience);
  if (over_stream) {
    CO_RETURN_IF_ERROR(
        co_await stream.write_all(length_prefix(query.size()), query, kServerPatience));
    CO_ASSIGN_OR_RETURN(const std::string message, co_await read_message(stream, deadline));
    co_return parse_reply(message, id, question);
  }
  CO_RETURN_IF_ERROR(co_await stream.write_all(query, kServerPatience));
  while (true) {
    std::array<char, kUdpBytesMax> buffer;
    const auto got = co_await stream.read_some(buffer, deadline);
    if (!got) {
      co_return std::unexpected(got.error());
    }
    // What does not fit the question was not sent by whom it was put to.
    auto reply = parse_reply(std::string_view(buffer.data(), *got), id, question);
    if (reply) {
      co_return reply;
    }
  }
}

Task<Result<Fd>> Server::call_node(Object request) {
  const auto call = std::make_shared<Call>(loop_);
  const int64_t number = ++last_call_;
  calls_[number] = call;
  request["call"] = number;
  auto sent = lines_.send(std::move(request));
  const Deadline deadline = Deadline::after(kNodePatience);
  while (sent && !call->ended) {
    const auto wake = co_await call->done.wait(deadline);
    if (wake != net::EventLoop::Wake::ready) {
      sent = std::unexpected(net::wake_error(wake, "wait for the node"));
    }
  }
  calls_.erase(number);
  if (!sent) {
    co_return std::unexpected(sent.error());
  }
  if (call->failed) {
    co_return base::fail(ErrorCode::unavailable, "the node refused");
  }
  co_return std::move(call->socket);
}

}  // namespace dns
