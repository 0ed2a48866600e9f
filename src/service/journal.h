// Journal: writes to the store that nobody waits for, in order, by one coroutine. A caller that
// needs them to be there awaits flush(). While the store does not answer or is full they wait, and
// are written when it takes them; what a killed process had not written yet, reconcile finds out
// again. Owned by main; loop thread only. Its length is bounded by the number of live sandboxes,
// each of which has a handful of steps.
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
      : loop_(loop),
        pool_(pool),
        store_(store),
        log_(log),
        pending_event_(loop),
        written_event_(loop) {}

  struct Entry {
    // Run again where the store did not take it.
    std::function<base::Result<void>(store::Store&)> write;
    std::function<void()> then;  // on the loop thread, once it is written (or failed)
  };
  void append(Entry entry);
  // Until all that was appended before is written, or the store does not answer: what the caller
  // asks of it next fails then.
  net::Task<void> flush();
  // Until stop() and nothing is pending. Spawned by main.
  net::Task<void> run();
  void stop();

 private:
  struct Written {
    size_t count = 0;  // of a batch, from its beginning; less than all: the store does not answer
    std::vector<base::Error> errors;
    std::string unanswered;
  };
  static Written write(store::Store& store, const std::vector<Entry>& batch, size_t from);
  net::Task<void> write_batch(std::vector<Entry> batch);

  net::EventLoop& loop_;
  net::BlockingPool& pool_;
  store::Store& store_;
  base::Log& log_;
  std::vector<Entry> pending_;
  uint64_t appended_ = 0;
  uint64_t written_ = 0;
  bool unanswered_ = false;  // the store did not answer when it was last asked
  bool stopping_ = false;
  net::Event pending_event_;
  net::Event written_event_;
};

}  // namespace service
