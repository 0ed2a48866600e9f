// Journal: writes to the store that nobody waits for, in order, by one coroutine. A caller that
// needs them to be there awaits flush(). What a killed process had not written yet, reconcile finds
// out again. Owned by main; loop thread only. Its length is bounded by
// the number of live sandboxes, each of which has a handful of steps.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/log.h"
#include "net/blocking_pool.h"
#include "net/task_group.h"
#include "store/store.h"

namespace service {

class Journal {
 public:
  Journal(net::EventLoop& loop, net::BlockingPool& pool, store::Store& store, base::Log& log)
      : pool_(pool), store_(store), log_(log), pending_event_(loop), written_event_(loop) {}

  struct Entry {
    std::function<base::Result<void>(store::Store&)> write;
    std::function<void()> then;  // on the loop thread, once it is written (or failed)
  };
  void append(Entry entry);
  // Until all that was appended before is written.
  net::Task<void> flush();
  // Until stop() and nothing is pending. Spawned by main.
  net::Task<void> run();
  void stop();

 private:
  net::BlockingPool& pool_;
  store::Store& store_;
  base::Log& log_;
  std::vector<Entry> pending_;
  uint64_t appended_ = 0;
  uint64_t written_ = 0;
  bool stopping_ = false;
  net::Event pending_event_;
  net::Event written_event_;
};

}  // namespace service
