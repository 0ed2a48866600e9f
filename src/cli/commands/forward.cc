#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <list>

#include "base/sys.h"
#include "cli/context.h"
#include "cli/forwarded_stream.h"

namespace cli {

namespace {

using base::ErrorCode;
using base::Fd;

// More at once are accepted when others have ended.
constexpr size_t kStreamsMax = 128;
constexpr int kBacklog = 64;
// How often the progress line is looked at.
constexpr int kTickMilliseconds = 500;

// A loopback port here that stands for one there.
struct Listener {
  Fd socket;
  uint16_t remote_port = 0;
};

sockaddr_in loopback(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = ::htons(port);
  address.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
  return address;
}

Result<Fd> listen_here(uint16_t port) {
  Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int yes = 1;
  const sockaddr_in address = loopback(port);
  if (!socket || ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
      ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(socket.get(), kBacklog) != 0) {
    return base::fail_errno(errno, "listen on 127.0.0.1 port ", port);
  }
  return socket;
}

uint16_t port_of(const Fd& socket) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size);
  return ::ntohs(address.sin_port);
}

class Forwarder {
 public:
  Forwarder(Context& context, const ForwardOptions& options)
      : context_(context), options_(options), progress_(context.console, context.clock) {}

  Result<void> open() {
    for (const PortPair& pair : options_.ports) {
      ASSIGN_OR_RETURN(Fd socket, listen_here(pair.local));
      RETURN_IF_ERROR(context_.console.write_out(base::cat("127.0.0.1:", port_of(socket), "\n")));
      listeners_.push_back({.socket = std::move(socket), .remote_port = pair.remote});
    }
    return {};
  }

  // Until a signal arrives.
  Result<void> run() {
    while (context_.interrupt.signal() == 0) {
      wait();
      for (const Listener& listener : listeners_) {
        RETURN_IF_ERROR(accept(listener));
      }
      step_streams();
      show();
    }
    return {};
  }

 private:
  void wait() const {
    std::vector<pollfd> waits{{context_.interrupt.fd(), POLLIN, 0}};
    bool has_more = false;
    for (const Listener& listener : listeners_) {
      waits.push_back({streams_.size() < kStreamsMax ? listener.socket.get() : -1, POLLIN, 0});
    }
    for (const ForwardedStream& stream : streams_) {
      stream.add_waits(waits);
      has_more = has_more || stream.has_more();
    }
    ::poll(waits.data(), waits.size(), has_more ? 0 : kTickMilliseconds);
  }

  Result<void> accept(const Listener& listener) {
    while (streams_.size() < kStreamsMax) {
      Fd local(::accept4(listener.socket.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (!local) {
        return {};
      }
      std::string query = base::cat("port=", listener.remote_port);
      if (!options_.host.empty()) {
        add_parameter(query, "host", options_.host);
      }
      auto upgrade = Upgrade::begin(context_.http.endpoint(),
                                    sandbox_target(options_.sandbox, "/streams/tcp?" + query),
                                    "sandbox-stream", {}, context_.interrupt);
      if (!upgrade && upgrade.error().code == ErrorCode::cancelled) {
        return {};
      }
      if (!upgrade) {
        context_.console.note(upgrade.error().message);
        continue;
      }
      streams_.emplace_back(std::move(local), std::move(*upgrade));
      ++count_;
    }
    return {};
  }

  void step_streams() {
    for (auto stream = streams_.begin(); stream != streams_.end();) {
      const int64_t before = stream->bytes();
      const auto over = stream->step();
      bytes_ += stream->bytes() - before;
      // That one end is gone is how many connections end; the other end sees it.
      if (!over && over.error().code != ErrorCode::connection_closed) {
        context_.console.note(over.error().message);
      }
      stream = !over || *over ? streams_.erase(stream) : std::next(stream);
    }
  }

  void show() {
    progress_.show(base::cat(streams_.size(), " open, ", count_, " in all, ",
                             describe_bytes(bytes_, 0), "; Ctrl-C ends"));
  }

  Context& context_;
  const ForwardOptions& options_;
  std::vector<Listener> listeners_;
  std::list<ForwardedStream> streams_;
  size_t count_ = 0;
  int64_t bytes_ = 0;
  Progress progress_;
};

}  // namespace

Result<int> forward(Context& context, const ForwardOptions& options) {
  // A sandbox that is not there is told before anybody connects.
  RETURN_IF_ERROR(context.api.get_object(sandbox_target(options.sandbox.id)));
  Forwarder forwarder(context, options);
  RETURN_IF_ERROR(forwarder.open());
  RETURN_IF_ERROR(forwarder.run());
  return 0;
}

}  // namespace cli
