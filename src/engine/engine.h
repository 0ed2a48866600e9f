// Engine: where sandboxes run. The one interface between the gateway's use cases and a machine or
// a cluster; nothing above it knows which it talks to. Written for an engine whose truth arrives
// by watch (Kubernetes): create() only starts, the state comes as changes, connect() goes by
// address and key. Loop thread only. Every engine passes engine/engine_contract_testing.cc.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/histogram.h"
#include "base/text.h"
#include "model/sandbox.h"
#include "net/http.h"
#include "net/task.h"

namespace engine {

using base::Result;

enum class State { starting, ready, failed, gone };

// What an engine says of one sandbox. `reason` is one of the API's reasons and set for failed.
struct Status {
  std::string id;
  State state = State::starting;
  std::string reason;
  std::string message;
  std::string image_digest;  // of main, once known
  std::string node;
  int64_t pull_ms = 0;
  int64_t start_ms = 0;
};

// One thing that happened, in order. `type` is an event type of the API (pulling, pulled, starting,
// out_of_memory, policy_denied with status.reason its own) or empty: only the status changed.
struct Change {
  Status status;
  std::string type;
  std::string message;
};

// A connected channel to a sandbox's agent that speaks api/agent-protocol.md. Exclusive use; give
// it back to the engine when the last answer was read whole, drop it otherwise.
struct AgentConnection {
  explicit AgentConnection(net::EventLoop& loop, base::Fd fd)
      : stream(loop, std::move(fd)), reader(stream) {}
  net::Stream stream;
  net::HttpReader reader;
};

// What one sandbox uses now. -1: its host does not count it.
struct Usage {
  std::string id;
  int64_t cpu_usec = -1;  // since it began, as rx and tx
  int64_t memory_bytes = -1;
  int64_t pids = -1;
  int64_t storage_bytes = -1;
  int64_t rx_bytes = -1;  // received by the sandbox
  int64_t tx_bytes = -1;
};

struct NodeInfo {
  std::string name;
  std::string version;
  int64_t millicpus = 0;
  int64_t memory_mb = 0;
  int64_t storage_mb = 0;  // of the storage pool
  int64_t sandboxes = 0;
};

struct ImageInfo {
  std::string name;    // normalised reference or local name
  std::string digest;  // "sha256:..."
  int64_t size_bytes = 0;
  std::string platform;  // "linux/amd64"
  std::string source;    // registry | build | import
  int64_t created_ms = 0;
  int64_t last_used_ms = 0;
  bool in_use = false;
  std::string config_json;  // {"env","workdir","user","entrypoint","cmd","exposed_ports"}
};

struct PullProgress {
  std::string state;  // running | succeeded | failed
  int64_t done_bytes = 0;
  int64_t total_bytes = 0;
  int64_t layers_done = 0;
  int64_t layers = 0;
  std::string reason;  // of failed
  std::string message;
  std::string name;  // the image's, when succeeded
};

struct GcResult {
  int64_t freed_bytes = 0;
  std::vector<std::string> removed;
};

// The images an engine keeps.
class Images {
 public:
  virtual ~Images() = default;
  virtual net::Task<Result<std::vector<ImageInfo>>> list() = 0;
  virtual net::Task<Result<ImageInfo>> get(std::string name) = 0;
  // Starts (or joins) a pull; the id for pull_progress.
  virtual net::Task<Result<std::string>> pull(std::string reference,
                                              model::RegistryAccess access) = 0;
  virtual net::Task<Result<PullProgress>> pull_progress(std::string pull_id) = 0;
  // Imports a root file system tar (plain, gzip or zstd) that the caller has spooled to a file.
  virtual net::Task<Result<ImageInfo>> import(std::string name, base::Fd tar) = 0;
  virtual net::Task<Result<void>> remove(std::string name) = 0;  // in_use, not_found
  virtual net::Task<Result<GcResult>> gc() = 0;
};

// How long its calls took.
struct CallTimes {
  base::Histogram create;
  base::Histogram remove;
  base::Histogram other;
};

// Of the agent of a sandbox's container by its number; 0: main's, whose address is the id alone.
inline std::string agent_address(const std::string& id, size_t container) {
  return container == 0 ? id : base::cat(id, "/", container);
}

class Engine {
 public:
  virtual ~Engine() = default;

  [[nodiscard]] virtual const CallTimes& call_times() const = 0;

  // Accepts the sandbox; it is then `starting` and its end (ready or failed) comes by watch. The
  // same id again is fine while it exists (idempotent). Local engines may already be ready.
  virtual net::Task<Result<Status>> create(model::SandboxSpec spec) = 0;
  virtual net::Task<Result<Status>> get(std::string id) = 0;  // not_found
  virtual net::Task<Result<std::vector<Status>>> list() = 0;
  // Ends when the sandbox and all it had are gone. Unknown ids are fine.
  virtual net::Task<Result<void>> remove(std::string id) = 0;
  virtual net::Task<Result<void>> set_network(std::string id, model::NetworkPolicy policy) = 0;
  // Of one, or of all that are ready ("").
  virtual net::Task<Result<std::vector<Usage>>> usage(std::string id) = 0;
  // The next change, in order, of all sandboxes. One caller. An error (unavailable) means changes
  // may have been missed: the caller lists and goes on.
  virtual net::Task<Result<Change>> next_change() = 0;

  // A channel to the agent of that sandbox's main container, pooled; with agent_address() to that
  // of another one. not_found when there is none.
  virtual net::Task<Result<std::unique_ptr<AgentConnection>>> connect(std::string id) = 0;
  virtual void give_back(std::string id, std::unique_ptr<AgentConnection> connection) = 0;

  virtual net::Task<Result<std::vector<NodeInfo>>> nodes() = 0;
  // Whether create can work now; else unavailable with the reason.
  virtual net::Task<Result<void>> check() = 0;
  virtual Images& images() = 0;
};

}  // namespace engine
