#include "tls/front.h"

namespace tls {
namespace {

using base::Result;
using net::Deadline;
using net::EventLoop;
using net::Task;

// A full one costs the processor about a millisecond: more than a burst of clients, less than what
// would keep the thread from its streams for long. One more ends the oldest.
constexpr size_t kHandshakesMax = 512;
// A little above the server's own bound (server/limits.h), so that it is the server who says 429.
constexpr size_t kConnectionsMax = 8192 + kHandshakesMax;
// How soon a renewed certificate is noticed.
constexpr base::Milliseconds kFileLook{1'000};
// What the server wrote last has this long to reach its clients once it stops.
constexpr base::Milliseconds kFinishPatience{3'000};
constexpr base::Milliseconds kFinishLook{10};

}  // namespace

Front::Front(base::Clock& clock, base::Log& log, Handover handover)
    : clock_(clock),
      log_(log),
      handover_(std::move(handover)),
      accepting_(loop_),
      finishing_(loop_) {}

Front::~Front() {
  if (thread_.joinable()) {
    loop_.post([this] { finishing_.spawn(finish()); });
    thread_.join();
  }
}

Result<uint16_t> Front::listen(const std::string& address, int backlog, Files files) {
  files_ = std::move(files);
  stamps_ = look_at_files();
  ASSIGN_OR_RETURN(auto context, Context::load(files_));
  if (!context->is_valid_at(clock_.wall())) {
    log_.warning("the certificate is not valid now",
                 {{"file", files_.certificate}, {"expires", context->expires()}});
  }
  ASSIGN_OR_RETURN(auto socket, net::listen_tcp(address, backlog));
  acceptor_.emplace(loop_, log_, std::move(socket), std::move(context),
                    Acceptor::Bounds{.connections = kConnectionsMax, .handshakes = kHandshakesMax},
                    std::move(handover_));
  const uint16_t port = acceptor_->port();
  thread_ = std::jthread([this] {
    accepting_.spawn(acceptor_->run());
    accepting_.spawn(watch_files());
    loop_.run();
    // The last coroutine ends in the turn after the one that stopped the loop.
    while (finishing_.size() > 0) {
      loop_.run_once(kFinishLook);
    }
  });
  return port;
}

void Front::stop_accepting() {
  loop_.post([this] { accepting_.cancel(); });
}

Task<void> Front::finish() {
  accepting_.cancel();
  co_await accepting_.join();
  const auto end = std::chrono::steady_clock::now() + kFinishPatience;
  while (acceptor_->connections() > 0 && std::chrono::steady_clock::now() < end) {
    co_await loop_.sleep_until(Deadline::after(kFinishLook));
  }
  co_await acceptor_->end();
  loop_.stop();
}

Front::Stamps Front::look_at_files() const {
  return {base::file_stamp(files_.certificate), base::file_stamp(files_.key)};
}

Task<void> Front::watch_files() {
  for (;;) {
    const auto slept = co_await loop_.sleep_until(Deadline::after(kFileLook));
    if (slept == EventLoop::Wake::cancelled) {
      co_return;
    }
    const Stamps now = look_at_files();
    if (now != stamps_) {
      stamps_ = now;
      reload();
    }
  }
}

// Both files are seldom replaced in one instant: a pair that does not fit is looked at again when
// one of them changes once more.
void Front::reload() {
  auto context = Context::load(files_);
  if (!context) {
    log_.error("the new certificate is not used", {{"error", context.error().message}});
    return;
  }
  if (!(*context)->is_valid_at(clock_.wall())) {
    log_.error("the new certificate is not used",
               {{"error", "it is not valid now"}, {"expires", (*context)->expires()}});
    return;
  }
  log_.info("a new certificate is used",
            {{"file", files_.certificate}, {"expires", (*context)->expires()}});
  acceptor_->use(std::move(*context));
}

}  // namespace tls
