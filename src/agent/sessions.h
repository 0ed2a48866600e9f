// The sandbox's sessions: starts them, finds them by id or name, remembers the finished ones. Owned
// by the server; loop thread only. Bounds: kRunningMax run; of the finished the newest are
// remembered, kFinishedMax of them with kFinishedLogBytesMax of log. Ends all when the server
// stops.
#pragma once

#include <list>
#include <string>

#include "agent/session.h"
#include "net/task_group.h"

namespace agent {

using net::Task;

class Sessions {
 public:
  // Each has a handful of descriptors and a log of its own; more is a mistake or an attack.
  static constexpr size_t kRunningMax = 512;
  static constexpr size_t kFinishedMax = 256;
  // Logs of finished sessions must not fill a small sandbox's storage for good.
  static constexpr uint64_t kFinishedLogBytesMax = 256ULL * 1024 * 1024;

  explicit Sessions(Agent& agent) : agent_(agent), group_(agent.loop) {}

  // Until its program runs. Errors: what the request asks for is not possible, conflict for a name
  // that a running one has, overloaded for too many. A caller that is cancelled leaves it running.
  Task<Result<SessionPtr>> start(SessionRequest request);
  // The container's own command, as a session named `main`; what is wrong with it is told in its
  // log. Null where there is no room for it.
  SessionPtr start_own(SessionRequest request);

  // By id, or by name the running one, else the newest finished one. not_found.
  [[nodiscard]] Result<SessionPtr> find(std::string_view id_or_name) const;
  // The one that runs under that name, or null.
  [[nodiscard]] SessionPtr find_running(std::string_view name) const;
  // {"items":[...],"next_cursor":null}, newest first.
  [[nodiscard]] std::string list_json() const;
  [[nodiscard]] size_t running() const;
  // Forgets a finished one; what it has left running lives on. conflict: it runs.
  Result<void> forget(const SessionPtr& session);
  // Forgets it, ends its whole tree, and returns when that is gone.
  Task<void> remove(SessionPtr session);
  // Ends all of them.
  Task<void> stop();

 private:
  Result<SessionPtr> add(SessionRequest request);
  Task<void> supervise(SessionPtr session);
  Task<void> supervise_own(SessionPtr session);
  void forget_oldest();

  Agent& agent_;
  std::list<SessionPtr> sessions_;  // oldest first
  net::TaskGroup group_;
};

}  // namespace agent
