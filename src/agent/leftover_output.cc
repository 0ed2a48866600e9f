#include "agent/leftover_output.h"

#include <errno.h>
#include <fcntl.h>

namespace agent {
namespace {

// A turn of the loop must end even if the writer never stops.
constexpr size_t kDiscardBytesPerTurn = size_t{1024} * 1024;

}  // namespace

LeftoverOutput::~LeftoverOutput() {
  for (const auto& [number, pipe] : pipes_) {
    loop_.forget(number);
  }
}

void LeftoverOutput::take(base::Fd pipe) {
  const int number = pipe.get();
  pipes_[number] = std::move(pipe);
  discard(number);
}

void LeftoverOutput::discard(int number) {
  const ssize_t count =
      ::splice(number, nullptr, null_device_, nullptr, kDiscardBytesPerTurn, SPLICE_F_NONBLOCK);
  if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR)) {
    loop_.forget(number);
    pipes_.erase(number);
    return;
  }
  loop_.watch(number, net::EventLoop::Direction::read, [this, number] { discard(number); });
}

}  // namespace agent
