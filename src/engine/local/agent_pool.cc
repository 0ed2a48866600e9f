#include "engine/local/agent_pool.h"

#include <errno.h>
#include <sys/socket.h>

#include <algorithm>

#include "base/sys.h"
#include "engine/local/node_messages.h"
#include "wire/container_json.h"

namespace engine {
namespace {

using base::ErrorCode;
using base::fail;
using net::Deadline;
using net::EventLoop;
using net::Task;

// An agent whose backlog is full is busy for moments only; its socket cannot be waited for.
constexpr base::Milliseconds kBacklogPause{2};
constexpr base::Milliseconds kConnectPatience{5000};

// Whether its last answer was read to its end.
bool is_between_requests(AgentConnection& connection) {
  return connection.stream.is_open() && connection.reader.body_finished() &&
         !connection.reader.has_buffered();
}

// Whether the next request can go out on it: its peer is there and sent nothing unasked.
bool is_quiet(AgentConnection& connection) {
  char byte = 0;
  const ssize_t count = ::recv(connection.stream.fd(), &byte, sizeof byte, MSG_PEEK | MSG_DONTWAIT);
  return count < 0 && errno == EAGAIN;
}

}  // namespace

Task<void> AgentPool::run() {
  for (;;) {
    const auto next = idle_.empty() ? std::chrono::steady_clock::now() : idle_.front().since;
    const auto wake = co_await loop_.sleep_until(Deadline::at(next + idle_patience_));
    if (wake == EventLoop::Wake::cancelled) {
      break;
    }
    const auto limit = std::chrono::steady_clock::now() - idle_patience_;
    while (!idle_.empty() && idle_.front().since <= limit) {
      drop(idle_.begin());
    }
  }
  by_id_.clear();
  idle_.clear();
}

void AgentPool::drop(Place place) {
  const auto found = by_id_.find(place->id);
  found->second.remove(place);
  if (found->second.empty()) {
    by_id_.erase(found);
  }
  idle_.erase(place);
}

void AgentPool::forget(const std::string& id) {
  for (size_t container = 0; container < wire::kContainersMax; ++container) {
    forget_one(agent_address(id, container));
  }
}

void AgentPool::forget_one(const std::string& id) {
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) {
    return;
  }
  for (const Place place : found->second) {
    idle_.erase(place);
  }
  by_id_.erase(found);
}

// The one that was used last: its peer is the least likely to have given it up.
std::unique_ptr<AgentConnection> AgentPool::take(const std::string& id) {
  for (;;) {
    const auto found = by_id_.find(id);
    if (found == by_id_.end()) {
      return nullptr;
    }
    const Place place = found->second.back();
    auto connection = std::move(place->connection);
    drop(place);
    if (is_quiet(*connection)) {
      return connection;
    }
  }
}

// "ID", or "ID/2" for another container than main; "" for what is neither.
std::string AgentPool::socket_of(const std::string& address) const {
  const size_t slash = std::min(address.find('/'), address.size());
  const std::string id = address.substr(0, slash);
  if (!is_sandbox_id(id)) {
    return "";
  }
  if (slash == address.size()) {
    return base::cat(folder_, "/", id, "/agent.sock");
  }
  const auto number = base::parse_number<unsigned>(address.substr(slash + 1));
  return number ? base::cat(folder_, "/", id, "/agent-", *number, ".sock") : "";
}

Task<Result<std::unique_ptr<AgentConnection>>> AgentPool::connect(std::string id) {
  const std::string path = socket_of(id);
  if (path.empty()) {
    co_return fail(ErrorCode::not_found, "no sandbox has that id");
  }
  if (auto connection = take(id)) {
    co_return std::move(connection);
  }
  const auto give_up = std::chrono::steady_clock::now() + kConnectPatience;
  for (;;) {
    auto socket = base::sys::connect_unix(path, true);
    if (socket) {
      co_return std::make_unique<AgentConnection>(loop_, std::move(*socket));
    }
    const int number = socket.error().errno_value;
    if (number == ENOENT || number == ECONNREFUSED || number == ENOTDIR) {
      co_return fail(ErrorCode::not_found, "sandbox ", id, " has no agent that listens");
    }
    if (number != EAGAIN) {
      co_return fail(ErrorCode::unavailable, "connect to the agent of ", id, ": ",
                     socket.error().message);
    }
    if (std::chrono::steady_clock::now() >= give_up) {
      co_return fail(ErrorCode::unavailable, "the agent of ", id, " takes no more connections");
    }
    const auto wake = co_await loop_.sleep_until(Deadline::after(kBacklogPause));
    if (wake == EventLoop::Wake::cancelled) {
      co_return std::unexpected(net::wake_error(wake, "connect to the agent"));
    }
  }
}

void AgentPool::give_back(const std::string& id, std::unique_ptr<AgentConnection> connection) {
  if (connection == nullptr || !is_between_requests(*connection)) {
    return;
  }
  auto& places = by_id_[id];
  if (places.size() >= kIdlePerSandboxMax) {
    drop(places.front());
  } else if (idle_.size() >= kIdleMax) {
    drop(idle_.begin());
  }
  // Looked up again: dropping the last one of an id drops its list.
  by_id_[id].push_back(idle_.insert(idle_.end(), Idle{.id = id,
                                                      .connection = std::move(connection),
                                                      .since = std::chrono::steady_clock::now()}));
}

}  // namespace engine
