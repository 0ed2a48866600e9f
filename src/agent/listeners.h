// What somebody outside lets listen in the sandbox, and the connections that came and wait to be
// fetched. Owned by the server; loop thread only. Bounds: kListenersMax, kWaitingMax connections of
// each for at most kFetchPatience.
#pragma once

#include <list>
#include <map>
#include <optional>
#include <string>

#include "agent/accounts.h"
#include "base/fd.h"
#include "net/task_group.h"

namespace agent {

class Listener {
 public:
  static constexpr size_t kWaitingMax = 16;
  static constexpr base::Milliseconds kFetchPatience{10'000};

  // `path`: of a unix socket, unlinked as `identity` at the end; else empty.
  Listener(net::EventLoop& loop, base::Fd socket, std::string path, Identity identity);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  [[nodiscard]] int socket() const { return socket_.get(); }
  [[nodiscard]] const std::string& path() const { return path_; }
  // Accepts one once there is room: its number. Errors: cancelled, agent_failed.
  net::Task<Result<uint64_t>> accept();
  // A connection that waits, once.
  std::optional<base::Fd> take(uint64_t number);
  // The connection that waits under that number.
  [[nodiscard]] int waiting(uint64_t number) const { return waiting_.at(number).socket.get(); }

 private:
  struct Waiting {
    base::Fd socket;
    net::EventLoop::TimerId timer = 0;
  };

  net::EventLoop& loop_;
  base::Fd socket_;
  std::string path_;
  Identity identity_;
  uint64_t last_number_ = 0;
  std::map<uint64_t, Waiting> waiting_;
  net::Event room_;
};

class Listeners {
 public:
  static constexpr size_t kListenersMax = 16;

  // Null for another name.
  Listener* find(std::string_view name);
  // A listener for as long as this lives.
  class Held {
   public:
    // Errors: overloaded.
    static Result<Held> add(Listeners& listeners, net::EventLoop& loop, base::Fd socket,
                            std::string path, Identity identity);
    Held(Held&& other) noexcept
        : listeners_(std::exchange(other.listeners_, nullptr)), place_(other.place_) {}
    Held& operator=(Held&&) = delete;
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;
    ~Held();

    [[nodiscard]] const std::string& name() const { return place_->first; }
    [[nodiscard]] Listener& listener() const { return place_->second; }

   private:
    using Place = std::map<std::string, Listener, std::less<>>::iterator;
    Held(Listeners& listeners, Place place) : listeners_(&listeners), place_(place) {}

    Listeners* listeners_;
    Place place_;
  };

 private:
  std::map<std::string, Listener, std::less<>> listeners_;
  uint64_t last_ = 0;
};

}  // namespace agent
