#include "agent/sessions.h"

#include <algorithm>

#include "base/random.h"
#include "net/stream.h"

namespace agent {
namespace {

using net::Deadline;

constexpr std::string_view kOwnName = "main";

}  // namespace

Result<SessionPtr> Sessions::add(SessionRequest request) {
  if (!request.name.empty() && find_running(request.name)) {
    return base::fail(ErrorCode::conflict, "a session named '", request.name, "' is running");
  }
  if (running() >= kRunningMax) {
    return base::fail(ErrorCode::overloaded, "there are ", kRunningMax,
                      " running sessions: end some first");
  }
  forget_oldest();
  base::KernelRandom random;
  sessions_.push_back(std::make_shared<Session>(
      agent_, base::new_id(random, agent_.config.session_prefix), std::move(request)));
  return sessions_.back();
}

Task<Result<SessionPtr>> Sessions::start(SessionRequest request) {
  CO_ASSIGN_OR_RETURN(const SessionPtr session, add(std::move(request)));
  if (auto started = session->start(); !started) {
    sessions_.remove(session);
    co_return std::unexpected(std::move(started).error());
  }
  group_.spawn(supervise(session));
  while (!session->settled()) {
    const auto wake = co_await session->changed().wait(Deadline::never());
    if (wake == net::EventLoop::Wake::cancelled) {
      co_return std::unexpected(net::wake_error(wake, "start a session"));
    }
  }
  if (session->failure()) {
    sessions_.remove(session);
    co_return std::unexpected(*session->failure());
  }
  co_return session;
}

SessionPtr Sessions::start_own(SessionRequest request) {
  request.name = kOwnName;
  const auto session = add(std::move(request));
  if (!session) {
    return nullptr;
  }
  if (const auto started = (*session)->start(); !started) {
    (*session)->fail(base::cat("sandbox: ", started.error().message, "\n"));
    return *session;
  }
  group_.spawn(supervise_own(*session));
  return *session;
}

Task<void> Sessions::supervise_own(SessionPtr session) {
  co_await supervise(session);
  if (session->failure()) {
    session->fail(base::cat("sandbox: ", session->failure()->message, "\n"));
  }
}

Task<void> Sessions::supervise(SessionPtr session) {
  co_await session->supervise();
  forget_oldest();
}

void Sessions::forget_oldest() {
  size_t finished = 0;
  uint64_t bytes = 0;
  // From the newest on, until the bounds are full.
  for (auto at = sessions_.end(); at != sessions_.begin();) {
    --at;
    if (!(*at)->over()) {
      continue;
    }
    ++finished;
    bytes += (*at)->log().stored_bytes();
    if (finished > 1 && (finished > kFinishedMax || bytes > kFinishedLogBytesMax)) {
      at = sessions_.erase(at);
    }
  }
}

Result<SessionPtr> Sessions::find(std::string_view id_or_name) const {
  SessionPtr named;
  for (const SessionPtr& session : sessions_) {
    if (session->id() == id_or_name) {
      return session;
    }
    const bool better = !named || named->over() || !session->over();
    if (!session->name().empty() && session->name() == id_or_name && better) {
      named = session;
    }
  }
  if (!named) {
    return base::fail(ErrorCode::not_found, "there is no session ", id_or_name);
  }
  return named;
}

SessionPtr Sessions::find_running(std::string_view name) const {
  const auto found = std::ranges::find_if(sessions_, [name](const SessionPtr& session) {
    return !session->over() && session->name() == name;
  });
  return found == sessions_.end() ? nullptr : *found;
}

std::string Sessions::list_json() const {
  std::string text = "{\"items\":[";
  for (auto at = sessions_.rbegin(); at != sessions_.rend(); ++at) {
    text += at == sessions_.rbegin() ? "" : ",";
    text += (*at)->json();
  }
  return text + "],\"next_cursor\":null}";
}

size_t Sessions::running() const {
  return static_cast<size_t>(
      std::ranges::count_if(sessions_, [](const SessionPtr& session) { return !session->over(); }));
}

Result<void> Sessions::forget(const SessionPtr& session) {
  if (!session->over()) {
    return base::fail(ErrorCode::conflict, "the session runs");
  }
  sessions_.remove(session);
  return {};
}

Task<void> Sessions::remove(SessionPtr session) {
  sessions_.remove(session);
  session->end(false);
  while (!session->over()) {
    const auto wake = co_await session->changed().wait(Deadline::never());
    if (wake == net::EventLoop::Wake::cancelled) {
      co_return;
    }
  }
}

Task<void> Sessions::stop() {
  for (const SessionPtr& session : sessions_) {
    session->end(true);
  }
  co_await group_.join();
  sessions_.clear();
}

}  // namespace agent
