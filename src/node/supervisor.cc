#include "node/supervisor.h"

#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>

#include "base/fault.h"
#include "base/random.h"
#include "base/sys.h"
#include "node/spec_json.h"

namespace node {
namespace {

using base::ErrorCode;
using base::Fd;
using base::Milliseconds;
using base::Result;

// After KILL; a process in uninterruptible sleep can take as long as its device does.
constexpr Milliseconds kDeathPatience{30'000};
// A dead process counts in its cgroup until its parent (init, for an adopted sandbox) reaps it.
constexpr Milliseconds kCgroupRetry{2};
constexpr int kCgroupTries = 2'500;

}  // namespace

Supervisor::Supervisor(net::EventLoop& loop, Places& places, Images& images, base::Clock& clock,
                       base::Log& log)
    : loop_(loop),
      places_(places),
      images_(images),
      clock_(clock),
      log_(log),
      boot_id_(read_boot_id()),
      group_(loop) {}

// Nobody can tell the next one, so nothing of an earlier policy or sandbox passes for its own.
uint32_t Supervisor::new_mark() {
  std::array<unsigned char, sizeof(uint32_t)> bytes{};
  base::KernelRandom().fill(bytes);
  return std::max(std::bit_cast<uint32_t>(bytes), uint32_t{1});  // 0: a connection without one
}

Supervisor::~Supervisor() {
  for (const auto& [id, sandbox] : sandboxes_) {
    for (const Fd& process : sandbox->processes) {
      if (process) {
        loop_.forget(process.get());
      }
    }
  }
}

void Supervisor::keep_ready(size_t shells) {
  pool_ = std::make_unique<ShellPool>(loop_, places_, log_, shells);
}

std::string Supervisor::folder_of(const std::string& id) const {
  return base::cat(places_.options().sandboxes_folder, "/", id);
}

void Supervisor::tell(const Sandbox& sandbox, std::string type, std::string message) {
  if (listener_) {
    listener_(Change{std::move(type), std::move(message), sandbox.status});
  }
}

void Supervisor::fail(const SandboxPointer& sandbox, std::string type, std::string reason,
                      std::string message) {
  log_.warning("sandbox failed", {{"id", sandbox->status.id}, {"reason", reason}});
  sandbox->status.state = State::failed;
  sandbox->status.reason = std::move(reason);
  sandbox->status.message = message;
  tell(*sandbox, std::move(type), std::move(message));
}

Result<Status> Supervisor::get(const std::string& id) const {
  const auto found = sandboxes_.find(id);
  if (found == sandboxes_.end()) {
    return base::fail(ErrorCode::not_found, "sandbox ", id, " does not exist");
  }
  return found->second->status;
}

std::vector<Status> Supervisor::list() const {
  std::vector<Status> all;
  all.reserve(sandboxes_.size());
  for (const auto& [id, sandbox] : sandboxes_) {
    all.push_back(sandbox->status);
  }
  return all;
}

std::vector<Usage> Supervisor::usage_after(const std::string& after) const {
  std::vector<Usage> page;
  for (auto at = sandboxes_.upper_bound(after); at != sandboxes_.end() && page.size() < kUsagePage;
       ++at) {
    const Sandbox& sandbox = *at->second;
    if (sandbox.status.state == State::ready && sandbox.has_place) {
      page.push_back(read_usage(places_, sandbox.record.index, at->first));
    }
  }
  return page;
}

Result<Usage> Supervisor::usage_of(const std::string& id) const {
  const auto found = sandboxes_.find(id);
  if (found == sandboxes_.end()) {
    return base::fail(ErrorCode::not_found, "sandbox ", id, " does not exist");
  }
  if (found->second->status.state != State::ready || !found->second->has_place) {
    return base::fail(ErrorCode::not_ready, "sandbox ", id, " is not ready");
  }
  return read_usage(places_, found->second->record.index, id);
}

net::Task<Result<Status>> Supervisor::create(model::SandboxSpec spec) {
  if (const auto found = sandboxes_.find(spec.id); found != sandboxes_.end()) {
    co_return found->second->status;
  }
  if (spec.builder) {
    CO_ASSIGN_OR_RETURN(spec.containers.front().image, images_.builder_image());
    spec.always_pull = true;  // the folder may be another version's by now
  }
  const auto sandbox = std::make_shared<Sandbox>();
  sandbox->status.id = spec.id;
  sandbox->changed = std::make_unique<net::Event>(loop_);
  sandboxes_[spec.id] = sandbox;
  auto layers = find_images(spec);
  if (!layers) {
    group_.spawn(pull_and_start(sandbox, std::move(spec)));
    co_return sandbox->status;
  }
  const std::string id = spec.id;
  auto started = co_await start(sandbox, std::move(spec), std::move(*layers));
  if (!started) {
    log_.warning("cannot start a sandbox", {{"id", id}, {"error", started.error().message}});
    sandboxes_.erase(id);
    sandbox->changed->notify();
    co_return std::unexpected(std::move(started.error()).with("reason", "start_failed"));
  }
  co_return sandbox->status;
}

net::Task<void> Supervisor::pull_and_start(SandboxPointer sandbox, model::SandboxSpec spec) {
  const auto begin = clock_.steady();
  auto layers = co_await fetch_images(sandbox, spec);
  if (sandbox->removing) {
    co_return;
  }
  sandbox->status.pull_ms =
      std::chrono::duration_cast<Milliseconds>(clock_.steady() - begin).count();
  if (!layers) {
    std::string reason = "image_pull_failed";
    for (const auto& [key, value] : layers.error().details) {
      reason = key == "reason" ? value : reason;
    }
    fail(sandbox, "", std::move(reason), layers.error().message);
    co_return;
  }
  tell(*sandbox, "starting", "");
  auto started = co_await start(sandbox, std::move(spec), std::move(*layers));
  if (!started) {
    fail(sandbox, "", "start_failed", started.error().message);
  } else if (!sandbox->removing) {
    tell(*sandbox, "", "");
  }
}

void Supervisor::adopt_process(const SandboxPointer& sandbox, Fd process) {
  const size_t container = sandbox->processes.size();
  const int watched_fd = process.get();
  sandbox->processes.push_back(std::move(process));
  const std::weak_ptr<Sandbox> watched = sandbox;
  loop_.watch(watched_fd, net::EventLoop::Direction::read, [this, watched, container] {
    if (const auto target = watched.lock()) {
      process_ended(target, container);
    }
  });
}

// PID 1 of a container is gone, and with it every process of its namespace.
void Supervisor::process_ended(const SandboxPointer& sandbox, size_t container) {
  Fd& process = sandbox->processes[container];
  siginfo_t info{};
  // An adopted one is no child of ours: init reaps it.
  ::waitid(P_PIDFD, static_cast<id_t>(process.get()), &info, WEXITED | WNOHANG);
  loop_.forget(process.get());
  process.reset();
  sandbox->changed->notify();
  if (sandbox->removing || sandbox->status.state == State::failed) {
    return;
  }
  const Record& record = sandbox->record;
  const std::string name = Places::name_of(record.index);
  const auto kills =
      places_.cgroups().oom_kills(record.grouped ? base::cat(name, "/c", container) : name);
  const std::string of =
      container == 0 ? "" : base::cat(" of '", record.others[container - 1].name, "'");
  const bool by_signal = info.si_pid == 0 || info.si_code == CLD_KILLED;
  if (by_signal && kills.value_or(0) > 0) {
    fail(sandbox, "out_of_memory", "out_of_memory",
         container == 0 ? "the sandbox ran out of memory" : "ran out of memory:" + of);
  } else {
    fail(sandbox, "", "agent_lost", base::cat("the sandbox's first process", of, " ended"));
  }
  kill_all(*sandbox);
}

void Supervisor::kill_all(Sandbox& sandbox) {
  for (const Fd& process : sandbox.processes) {
    if (process) {
      ::syscall(SYS_pidfd_send_signal, process.get(), SIGKILL, nullptr, 0);
    }
  }
}

net::Task<Result<void>> Supervisor::remove(std::string id) {
  for (;;) {
    const auto found = sandboxes_.find(id);
    if (found == sandboxes_.end()) {
      co_return Result<void>{};
    }
    const SandboxPointer sandbox = found->second;
    sandbox->removing = true;
    if (sandbox->changing) {
      // Its start (milliseconds) or another removal of it: whatever comes of that is looked at.
      const auto wake = co_await sandbox->changed->wait(net::Deadline::after(kDeathPatience));
      if (wake != net::EventLoop::Wake::ready) {
        co_return base::fail(ErrorCode::internal, "sandbox ", id, " is still changing");
      }
      continue;
    }
    sandbox->changing = true;
    auto removed = co_await remove_parts(sandbox);
    sandbox->changing = false;
    if (removed) {
      sandboxes_.erase(id);
    }
    sandbox->changed->notify();
    co_return removed;
  }
}

net::Task<Result<void>> Supervisor::remove_parts(SandboxPointer sandbox) {
  const auto lives = [&sandbox] {
    return std::ranges::any_of(sandbox->processes, [](const Fd& process) { return bool(process); });
  };
  if (lives()) {
    kill_all(*sandbox);
    base::fault_point("node.remove.kill");
  }
  const auto deadline = net::Deadline::after(kDeathPatience);
  while (lives()) {
    const auto wake = co_await sandbox->changed->wait(deadline);
    if (wake != net::EventLoop::Wake::ready) {
      co_return base::fail(ErrorCode::internal, "the processes of sandbox ", sandbox->status.id,
                           " do not end");
    }
  }
  base::fault_point("node.remove.dead");
  if (sandbox->has_place) {
    const uint32_t index = sandbox->record.index;
    auto cgroups = co_await remove_cgroups(index);
    CO_RETURN_IF_ERROR(std::move(cgroups));
    base::fault_point("node.remove.cgroups");
    CO_RETURN_IF_ERROR(places_.remove_storage(index));
    base::fault_point("node.remove.storage");
    places_.release_network(index, std::move(sandbox->network));
    base::fault_point("node.remove.network");
    sandbox->has_place = false;
  }
  for (const ImageLayers& layers : sandbox->held) {
    images_.unhold(layers);
  }
  sandbox->held.clear();
  CO_RETURN_IF_ERROR(base::sys::remove_tree(folder_of(sandbox->status.id)));
  base::fault_point("node.remove.record");
  co_return Result<void>{};
}

net::Task<Result<void>> Supervisor::remove_cgroups(uint32_t index) {
  for (int i = 0; i < kCgroupTries; ++i) {
    auto removed = places_.remove_cgroups(index);
    if (removed || removed.error().errno_value != EBUSY) {
      co_return removed;
    }
    const auto wake = co_await loop_.sleep_until(net::Deadline::after(kCgroupRetry));
    if (wake == net::EventLoop::Wake::cancelled) {
      co_return removed;
    }
  }
  co_return base::fail(ErrorCode::internal, "the cgroups of sandbox ", index, " stay in use");
}

Result<void> Supervisor::set_network(const std::string& id, model::NetworkPolicy policy) {
  const auto found = sandboxes_.find(id);
  if (found == sandboxes_.end()) {
    return base::fail(ErrorCode::not_found, "sandbox ", id, " does not exist");
  }
  if (!found->second->has_place || found->second->removing) {
    return base::fail(ErrorCode::not_ready, "sandbox ", id, " is not ready");
  }
  // On disk first: should the node end in between, the next one makes it so.
  Record& record = found->second->record;
  const Record before = record;
  record.network = std::move(policy);
  record.network_mark = new_mark();
  RETURN_IF_ERROR(write_record(folder_of(id), record));
  begin_counting(*found->second);
  auto set = places_.network().set_policy(record.index, record.network, record.network_mark);
  if (!set) {
    record = before;
    [[maybe_unused]] const auto written = write_record(folder_of(id), record);
  }
  return set;
}

Result<void> Supervisor::recover() {
  ASSIGN_OR_RETURN(const auto names, base::sys::list_folder(places_.options().sandboxes_folder));
  for (const std::string& name : names) {
    recover_one(name);
  }
  return places_.reap_others();
}

// What is left of a record's processes.
struct Supervisor::Survivors {
  std::vector<Fd> processes;
  bool all = true;
  bool executed = true;  // each agent of those that live
};

Supervisor::Survivors Supervisor::find_survivors(const Record& record) {
  std::vector<RecordedProcess> recorded{record.process};
  for (const RecordedContainer& other : record.others) {
    recorded.push_back(other.process);
  }
  Survivors out;
  for (const RecordedProcess& process : recorded) {
    auto survivor = find_survivor(record.boot_id, process);
    out.all = out.all && survivor;
    if (survivor) {
      out.executed = out.executed && survivor->executed;
      out.processes.push_back(std::move(survivor->process));
    }
  }
  return out;
}

void Supervisor::recover_one(const std::string& name) {
  const std::string folder = folder_of(name);
  auto record = is_sandbox_id(name) ? read_record(folder) : base::fail(ErrorCode::not_found);
  Survivors survivors = record ? find_survivors(*record) : Survivors{.all = false};
  const bool was_promised = record && survivors.executed;
  const bool lives = was_promised && survivors.all;
  if (!lives) {
    for (const Fd& process : survivors.processes) {
      ::syscall(SYS_pidfd_send_signal, process.get(), SIGKILL, nullptr, 0);
    }
  }
  if (!was_promised) {
    // A place ahead of its sandbox, or one whose create was never answered.
    if (const auto removed = base::sys::remove_tree(folder); !removed) {
      log_.error("cannot remove a leftover folder", {{"error", removed.error().message}});
    }
    return;
  }
  const auto sandbox = std::make_shared<Sandbox>();
  sandbox->changed = std::make_unique<net::Event>(loop_);
  sandbox->status = {.id = record->id,
                     .image_digest = record->image_digest,
                     .pull_ms = record->pull_ms,
                     .start_ms = record->start_ms};
  sandbox->record = std::move(*record);
  sandboxes_[name] = sandbox;
  const auto adopted = lives ? places_.adopt(sandbox->record.index, sandbox->record.network,
                                             sandbox->record.network_mark)
                             : Result<void>{};
  if (lives && adopted) {
    sandbox->has_place = true;
    sandbox->status.state = State::ready;
    hold_again(*sandbox);
    begin_counting(*sandbox);
    for (Fd& process : survivors.processes) {
      adopt_process(sandbox, std::move(process));
    }
    log_.info("adopted a sandbox", {{"id", name}});
    return;
  }
  const bool rebooted = sandbox->record.boot_id != boot_id_;
  fail(sandbox, "", rebooted ? "host_restarted" : "agent_lost",
       rebooted ? "the host was restarted" : "the sandbox ended while the node was away");
}

void Supervisor::hold_again(Sandbox& sandbox) {
  const Record& record = sandbox.record;
  sandbox.held.push_back({.digest = record.image_digest, .folders = record.layers});
  for (const RecordedContainer& other : record.others) {
    sandbox.held.push_back({.digest = other.image_digest, .folders = other.layers});
  }
  for (const ImageLayers& layers : sandbox.held) {
    images_.hold(layers);
  }
}

net::Task<void> Supervisor::stop() {
  group_.cancel();
  co_await group_.join();
  pool_.reset();
}

}  // namespace node
