#include "agent/agent.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>

#include "base/text.h"

namespace agent {

Agent::Agent(net::EventLoop& event_loop, AgentOptions options)
    : loop(event_loop),
      config(std::move(options.config)),
      oom_counter(std::move(options.oom_counter)),
      spool_folder(std::move(options.spool_folder)),
      program(std::move(options.program)),
      covered(std::move(options.covered)),
      null_device(::open("/dev/null", O_RDWR | O_CLOEXEC)),
      patience(options.patience),
      reaper(event_loop),
      trees(std::move(options.cgroup)),
      spawner(event_loop),
      leftovers(event_loop, null_device.get()),
      idle_memory(event_loop) {
  reaper.on_orphans([this] { trees.sweep(); });
}

uint64_t Agent::oom_kills() const {
  std::array<char, 512> buffer{};
  const ssize_t size = ::pread(oom_counter.get(), buffer.data(), buffer.size(), 0);
  if (size <= 0) {
    return 0;
  }
  for (const std::string_view line :
       base::split(std::string_view(buffer.data(), static_cast<size_t>(size)), '\n')) {
    constexpr std::string_view kName = "oom_kill ";
    if (line.starts_with(kName)) {
      return base::parse_number<uint64_t>(line.substr(kName.size())).value_or(0);
    }
  }
  return 0;
}

}  // namespace agent
