// Replicas: the gateways on this store and which of them this one is. Each renews a row in the
// store every kBeat; one that was silent for kSilence is taken for dead, and what it was at work
// at is taken over by another (Lifecycle::look_after_orphans). Silence is measured by this process'
// steady clock while the store answers, so neither clocks that differ nor a store that was away or
// let wait make the living look dead. A file has one gateway, which is always alone. Owned by main;
// loop thread only.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "net/blocking_pool.h"
#include "net/task_group.h"
#include "service/store_clock.h"
#include "store/store.h"

namespace service {

using Replica = store::Replica;

class Replicas {
 public:
  static constexpr base::Milliseconds kBeat{1'000};
  // A gateway that stands still for less (a slow store, a stopped process) keeps its work.
  static constexpr base::Milliseconds kSilence{5'000};

  struct Identity {
    std::string id;       // the same after a restart: what it was at work at is its own
    std::string address;  // where it listens
    bool shared = false;  // whether others can be on the store
  };

  Replicas(net::EventLoop& loop, base::Clock& clock, const StoreClock& store_clock,
           net::BlockingPool& pool, store::Store& store, base::Log& log, Identity identity);

  [[nodiscard]] const std::string& id() const { return identity_.id; }
  [[nodiscard]] bool shared() const { return identity_.shared; }
  // Whether this gateway starts and removes it.
  [[nodiscard]] bool drives(const store::Sandbox& row) const {
    return !shared() || row.replica == identity_.id;
  }
  // Whether a gateway of that id is heard of; this one is.
  [[nodiscard]] bool lives(const std::string& id) const;
  // Whether what is in memory is what the store has: nobody else changes it. One that is silent
  // and has not left may only stand still.
  [[nodiscard]] bool alone() const {
    return !shared() || (hearing_ && heard_.empty() && !has_unread());
  }
  // Whether all others have gone and what they wrote last may not have been read: who reads
  // everything says so to note_read(), with what departures() was when the reading began.
  [[nodiscard]] bool has_unread() const { return read_departures_ != departures_; }
  [[nodiscard]] uint64_t departures() const { return departures_; }
  void note_read(uint64_t departures) { read_departures_ = departures; }

  // Makes its row; before anything is read that others change.
  net::Task<base::Result<void>> join();
  // Beats until it is cancelled. `on_look` is called after each look at the others, `on_return`
  // when this gateway has been silent itself for so long that others may have taken its work.
  net::Task<void> run(std::function<void()> on_look, std::function<void()> on_return);
  // Looks at the others now.
  net::Task<base::Result<void>> beat();
  // Whether the changes of others are heard of as they happen.
  void set_hearing(bool hearing) { hearing_ = hearing; }
  // It is about to stop.
  net::Task<void> drain();
  // Its row goes: what it has left is another's at once.
  net::Task<void> leave();
  // How many clients are connected; asked at each beat.
  void count_connections(std::function<int64_t()> count) { count_ = std::move(count); }
  // All, this one included, the oldest first.
  net::Task<base::Result<std::vector<Replica>>> list();

 private:
  struct Heard {
    int64_t heartbeat_ms = 0;
    base::SteadyTime since;  // it said something else
  };
  [[nodiscard]] Replica own() const;
  void note(const std::vector<Replica>& rows);

  net::EventLoop& loop_;
  base::Clock& clock_;
  const StoreClock& store_clock_;
  net::BlockingPool& pool_;
  store::Store& store_;
  base::Log& log_;
  Identity identity_;
  int64_t started_ms_;
  bool draining_ = false;
  bool hearing_ = false;
  uint64_t departures_ = 0;  // how often nobody else was left
  uint64_t read_departures_ = 0;
  std::map<std::string, Heard> heard_;  // of whose row is there, but its own
  std::set<std::string> others_;        // those of them that live
  base::SteadyTime beaten_;             // when the store last took a beat
  bool missed_ = false;                 // one or more since
  std::function<int64_t()> count_;
};

}  // namespace service
