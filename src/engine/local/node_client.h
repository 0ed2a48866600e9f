// NodeClient: the gateway's connection to sandbox-node (api/node-protocol.md). Calls are matched to
// answers by seq; changes arrive by `watch`. Owned by LocalEngine; loop thread only. When the
// connection ends, calls under way fail with unavailable and it is made again with back-off; a call
// that comes meanwhile waits kConnectPatience for it. Bounds: kCallsMax calls under way,
// kChangesMax changes not taken (then they count as missed).
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/log.h"
#include "engine/engine.h"
#include "net/json_lines.h"
#include "net/task_group.h"
#include "wire/json.h"

namespace engine {

class NodeClient {
 public:
  // More than every sandbox of a machine asking at once.
  static constexpr size_t kCallsMax = size_t{16} * 1024;
  static constexpr size_t kChangesMax = size_t{64} * 1024;
  // A node that is started again answers within a second or so.
  static constexpr base::Milliseconds kConnectPatience{2000};

  NodeClient(net::EventLoop& loop, std::string socket, base::Log& log);

  // Connects, reads, connects again, until cancelled.
  net::Task<void> run();

  // Sends one request and waits for its answer's "ok". Errors: the node's; unavailable when it
  // cannot be reached, goes meanwhile, or does not answer within `patience`; overloaded.
  net::Task<Result<wire::json::Object>> call(std::string operation, wire::json::Object fields,
                                             base::Milliseconds patience, base::Fd fd = {});
  // The same of a request that is answered with one descriptor.
  net::Task<Result<base::Fd>> call_for_descriptor(std::string operation,
                                                  base::Milliseconds patience);
  net::Task<Result<Change>> next_change();
  // The node's answer to `hello` on this connection; unavailable when there is none.
  [[nodiscard]] Result<NodeInfo> node() const;
  [[nodiscard]] const CallTimes& times() const { return times_; }
  [[nodiscard]] const std::string& node_name() const { return node_.name; }

 private:
  struct Call {
    explicit Call(net::EventLoop& loop) : answered(loop) {}
    net::Event answered;
    std::optional<Result<wire::json::Object>> answer;
    std::vector<base::Fd> fds;  // that came with it
  };

  net::Task<base::Error> serve_connection();
  Result<void> greet();
  Result<void> take_line(net::JsonLines::Line given);
  // `received`: what comes with the answer; nullptr: nothing is to.
  net::Task<Result<wire::json::Object>> ask(std::string operation, wire::json::Object fields,
                                            base::Milliseconds patience, base::Fd fd,
                                            std::vector<base::Fd>* received);
  Result<void> take_greeting(int64_t seq, const wire::json::Object& line);
  void take_change(Result<Change> change);
  base::Histogram& times_of(std::string_view operation);
  void fail_calls(const std::string& why);

  net::EventLoop& loop_;
  std::string socket_;
  base::Log& log_;
  std::unique_ptr<net::JsonLines> lines_;  // while connected
  int64_t hello_seq_ = 0;
  int64_t watch_seq_ = 0;
  bool greeted_ = false;  // both answered: calls may go out
  bool greeted_before_ = false;
  std::string last_error_ = "not connected yet";
  NodeInfo node_;
  net::Event connected_;
  int64_t last_seq_ = 0;
  CallTimes times_;
  std::unordered_map<int64_t, Call*> calls_;
  std::deque<Result<Change>> changes_;
  net::Event changed_;
};

}  // namespace engine
