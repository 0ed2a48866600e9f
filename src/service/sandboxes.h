// Sandboxes: the use cases of the API's sandbox routes. The caller comes first: what is not of its
// team is not_found. Owned by main; loop thread only.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "service/access.h"
#include "service/compose_request.h"
#include "service/containers.h"
#include "service/create_request.h"
#include "service/lifecycle.h"

namespace service {

using SandboxEvent = store::Event;
using SandboxFilter = store::SandboxFilter;
using SandboxPage = store::Page<SandboxRow>;

// What the engine keeps pooled: one exclusive channel to an agent. Given back by keep(), dropped
// (which cancels what runs on it) otherwise.
class AgentChannel {
 public:
  AgentChannel(engine::Engine& engine, std::string id,
               std::unique_ptr<engine::AgentConnection> connection)
      : engine_(&engine), id_(std::move(id)), connection_(std::move(connection)) {}
  AgentChannel(AgentChannel&&) = default;
  AgentChannel& operator=(AgentChannel&&) = default;

  [[nodiscard]] net::Stream& stream() { return connection_->stream; }
  [[nodiscard]] net::HttpReader& reader() { return connection_->reader; }
  // Only once the last answer was read whole.
  void keep() { engine_->give_back(id_, std::move(connection_)); }

 private:
  engine::Engine* engine_;
  std::string id_;
  std::unique_ptr<engine::AgentConnection> connection_;
};

struct Created {
  SandboxRow row;
  bool fresh = true;  // false: the idempotency key had made it before
};

struct IdempotencyKey {
  std::string key;
  std::string body_digest;
};

class Sandboxes {
 public:
  Sandboxes(Context& context, Lifecycle& lifecycle) : context_(context), lifecycle_(lifecycle) {}

  net::Task<base::Result<Created>> create(Caller caller, std::string body,
                                          std::optional<IdempotencyKey> key);
  // Where other gateways share the store: brings what is known of a sandbox here up to date, with
  // `usable` only where it is not ready as far as this one knows. One that the engine has ready is
  // waited for until the gateway that started it has said so. To be called before what needs it.
  enum class Look { usable, exact };
  net::Task<void> look(std::string id, Look how);

  // The row as it is now; deleted ones only with `archived`.
  net::Task<base::Result<SandboxRow>> get(Caller caller, std::string id, bool archived);
  // The same, but not before it is ready, failed or deleted, or the deadline has passed.
  net::Task<base::Result<SandboxRow>> wait_settled(Caller caller, std::string id, bool archived,
                                                   net::Deadline deadline);
  // Which teams' rows: those that the caller is in; of one; or of all, then without what is
  // nobody else's business (labels, message, node) where the caller is not in the team.
  struct ListedTeams {
    std::optional<std::string> only;
    bool all = false;
  };
  net::Task<base::Result<SandboxPage>> list(Caller caller, ListedTeams teams, SandboxFilter filter);
  net::Task<base::Result<SandboxRow>> patch(Caller caller, std::string id, std::string body);
  net::Task<base::Result<void>> remove(Caller caller, std::string id);
  // Ends all of a team's and lets it make no more, or lets it again; how many are ending.
  net::Task<base::Result<int64_t>> set_drained(std::string team, bool drained);
  // Whether it is gone by then.
  net::Task<bool> wait_gone(LivePtr live, net::Deadline deadline);
  // The team of a sandbox, of a deleted one too: for a caller in several teams. not_found.
  net::Task<base::Result<std::string>> team_of(std::string id);
  // nullptr: there is none of that team that lives.
  [[nodiscard]] LivePtr find_live(const Caller& caller, const std::string& id) const;

  // Of deleted sandboxes too.
  net::Task<base::Result<std::vector<SandboxEvent>>> events(Caller caller, std::string id,
                                                            int64_t after, int64_t limit);

  // A request into a ready sandbox: not_found, or not_ready with details.state.
  [[nodiscard]] base::Result<Leases::Use> use(const Caller& caller, const std::string& id);
  net::Task<base::Result<AgentChannel>> connect(std::string id, size_t container = 0);
  // How each container of several is; nothing for one that does not say.
  net::Task<std::vector<std::optional<ServiceStatus>>> containers(SandboxRow row);
  // Ends a container's own command for good; its agent stays. conflict where there is only one.
  net::Task<base::Result<ServiceStatus>> stop_container(LivePtr live, size_t container);
  // What runs in it now, as its agent says; nothing does where it is not ready.
  struct Activity {
    int64_t running_commands = 0;
    int64_t sessions = 0;
  };
  net::Task<base::Result<Activity>> activity(LivePtr live);
  // The error for an agent that went away: not_ready where the sandbox ended, else agent_failed.
  [[nodiscard]] static base::Error agent_error(const Live& live, const base::Error& cause);

  [[nodiscard]] std::map<std::string, int64_t> count_by_state() const {
    return context_.live.count_by_state();
  }
  [[nodiscard]] uint64_t creates() const { return creates_; }
  [[nodiscard]] Admission& admission() { return lifecycle_.admission(); }
  net::Task<base::Result<void>> check();  // store and engine answer

 private:
  net::Task<base::Result<Created>> repeat(SandboxRow row);
  [[nodiscard]] base::Result<void> check_quota(const Team& team,
                                               const model::Resources& resources) const;
  net::Task<base::Result<std::map<std::string, std::string>>> find_built_images(
      const Team& team, const wire::json::Object& body);
  net::Task<base::Result<void>> check_build_image(const Team& team, const std::string& image);
  net::Task<base::Result<void>> check_entrypoint(const model::ContainerSpec& container);
  [[nodiscard]] base::Result<TeamPtr> team_for(Caller& caller,
                                               const wire::json::Object& body) const;
  [[nodiscard]] SandboxRow new_row(const Caller& caller, const Team& team,
                                   const CreateRequest& request);

  Context& context_;
  Lifecycle& lifecycle_;
  uint64_t creates_ = 0;
};

}  // namespace service
