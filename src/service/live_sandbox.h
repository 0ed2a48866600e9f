// The sandboxes that are not gone, in memory: what the hot path looks at. The store is the truth
// that outlives the process and that other gateways share; this is loaded from it at start, written
// back step by step, and follows what others write (Lifecycle::take). Loop thread only. A Live is
// shared by the table and by those who wait for it, so that they still see it end after it has left
// the table.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <unordered_map>

#include "net/task_group.h"
#include "store/rows.h"

namespace service {

using SandboxRow = store::Sandbox;
using model::SandboxState;

struct Live {
  Live(net::EventLoop& loop, SandboxRow from)
      : row(std::move(from)), changed(loop), recorded(loop) {}

  SandboxRow row;
  int uses = 0;  // open requests and streams into it
  int running_commands = 0;
  int unwritten = 0;                 // changes of it that the store does not have yet
  bool creating = false;             // engine.create is under way
  bool bringing_up = false;          // its services are being started
  bool removing = false;             // a removal is under way
  bool clearing = false;             // the engine's part of a failed one is being removed
  bool starting_told = false;        // the event `starting` is recorded
  bool expiring = false;             // the store is asked whether its time is over
  bool equipping = false;            // its credentials are being made anew
  bool credentials_failing = false;  // the last ones were not all there
  int64_t credentials_due_ms = 0;    // when they are to be made anew
  bool dirty = false;                // has a lease renewal that is not written
  int64_t due_noted_ms = 0;          // earliest entry in the due table; 0: none
  uint64_t events_seen = 0;          // counts what was recorded, for followers
  net::Event changed;                // its state changed
  net::Event recorded;               // an event of it can be read from the store (or it is gone)

  // An event of it was stored.
  void note_recorded() {
    ++events_seen;
    recorded.notify();
  }
};
using LivePtr = std::shared_ptr<Live>;

class LiveSandboxes {
 public:
  explicit LiveSandboxes(net::EventLoop& loop) : loop_(loop) {}

  LivePtr add(SandboxRow row) {
    auto live = std::make_shared<Live>(loop_, std::move(row));
    by_id_[live->row.id] = live;
    note_change();
    return live;
  }
  // nullptr when it is not there.
  [[nodiscard]] LivePtr find(const std::string& id) const {
    const auto found = by_id_.find(id);
    return found == by_id_.end() ? nullptr : found->second;
  }
  void erase(const std::string& id) {
    by_id_.erase(id);
    note_change();
  }
  // Another number after every change of who is there or holds quota.
  [[nodiscard]] uint64_t version() const { return version_; }
  void note_change() { ++version_; }
  [[nodiscard]] const std::unordered_map<std::string, LivePtr>& all() const { return by_id_; }
  [[nodiscard]] std::map<std::string, int64_t> count_by_state() const {
    std::map<std::string, int64_t> out;
    for (const auto& [id, live] : by_id_) {
      ++out[std::string(model::to_string(live->row.state))];
    }
    return out;
  }

 private:
  net::EventLoop& loop_;
  std::unordered_map<std::string, LivePtr> by_id_;
  uint64_t version_ = 1;
};

}  // namespace service
