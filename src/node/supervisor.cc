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
#include "node/root_files.h"
#include "node/sandbox_root.h"
#include "node/spec_json.h"

namespace node {
namespace {

using base::ErrorCode;
using base::Fd;
using base::Milliseconds;
using base::Result;

// From the last order to the agent's execve it takes a millisecond; this is for a host in trouble.
constexpr Milliseconds kStartPatience{20'000};
// After KILL; a process in uninterruptible sleep can take as long as its device does.
constexpr Milliseconds kDeathPatience{30'000};
// A dead process counts in its cgroup until its parent (init, for an adopted sandbox) reaps it.
constexpr Milliseconds kCgroupRetry{2};
constexpr int kCgroupTries = 2'500;

// Nobody can tell the next one, so nothing of an earlier policy or sandbox passes for its own.
uint32_t new_mark() {
  std::array<unsigned char, sizeof(uint32_t)> bytes{};
  base::KernelRandom().fill(bytes);
  return std::max(std::bit_cast<uint32_t>(bytes), uint32_t{1});  // 0: a connection without one
}

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

Supervisor::~Supervisor() {
  for (const auto& [id, sandbox] : sandboxes_) {
    if (sandbox->process) {
      loop_.forget(sandbox->process.get());
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
  std::optional<ImageLayers> layers;
  if (!spec.always_pull) {
    layers = images_.find(spec.containers.front().image, spec.registry);
  }
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
  const std::weak_ptr<Sandbox> watched = sandbox;
  auto on_event = [this, watched](std::string type, std::string message) {
    const auto target = watched.lock();
    if (target && !target->removing) {
      tell(*target, std::move(type), std::move(message));
    }
  };
  auto layers = co_await images_.ensure(spec.containers.front().image, spec.registry,
                                        spec.always_pull, std::move(on_event));
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

net::Task<Result<void>> Supervisor::start(SandboxPointer sandbox, model::SandboxSpec spec,
                                          ImageLayers layers) {
  if (spec.containers.front().run_entrypoint && layers.config.entrypoint.empty() &&
      layers.config.cmd.empty()) {
    co_return base::fail_field("run_entrypoint", "the image has neither ENTRYPOINT nor CMD");
  }
  const auto begin = clock_.steady();
  sandbox->changing = true;
  images_.hold(layers);
  auto taken = spec.builder ? places_.make(jail::Profile::builder) : pool_->take();
  Result<void> started;
  if (!taken) {
    started = std::unexpected(std::move(taken).error());
  } else {
    const std::unique_ptr<Place>& place = *taken;
    base::fault_point("node.create.place");
    started = prepare(*sandbox, *place, spec, layers);
    if (started) {
      auto executed = co_await wait_for_agent(*place->shell);
      started = std::move(executed);
      base::fault_point("node.create.executed");
    }
  }
  sandbox->changing = false;
  if (started) {
    sandbox->has_place = true;
    sandbox->held = std::move(layers);
    sandbox->status.state = State::ready;
    sandbox->status.image_digest = sandbox->record.image_digest;
    sandbox->status.start_ms =
        std::chrono::duration_cast<Milliseconds>(clock_.steady() - begin).count();
    sandbox->network = std::move((*taken)->network);
    adopt_process(sandbox, (*taken)->shell->take_process());
    // Closing its mounts waits for a grace period each; the answer goes out first.
    loop_.post([spent = std::shared_ptr<Place>(std::move(*taken))] {});
  } else {
    images_.unhold(layers);
    if (taken) {
      places_.discard(std::move(*taken));
    }
  }
  sandbox->changed->notify();
  co_return started;
}

Result<void> Supervisor::prepare(Sandbox& sandbox, Place& place, const model::SandboxSpec& spec,
                                 const ImageLayers& layers) {
  RETURN_IF_ERROR(places_.storage().set_limit(place.name, spec.resources.storage_mb));
  RETURN_IF_ERROR(places_.cgroups().limit(place.name, spec.resources));
  Record& record = sandbox.record;
  if (spec.network.mode != model::NetworkMode::open) {
    record.network = spec.network;
    record.network_mark = new_mark();
    RETURN_IF_ERROR(places_.network().set_policy(place.index, record.network, record.network_mark));
  }
  if (spec.network.mode == model::NetworkMode::allow) {
    RETURN_IF_ERROR(ensure_name_server(place.area_mount.get()));
  }
  base::fault_point("node.create.limits");
  ASSIGN_OR_RETURN(const Fd root, make_sandbox_root(place, layers.folders,
                                                    places_.options().images_folder, spec.id));
  base::fault_point("node.create.overlay");
  const std::string folder = folder_of(spec.id);
  if (::rename(place.folder.c_str(), folder.c_str()) != 0) {
    return base::fail_errno(errno, "rename ", place.folder);
  }
  place.folder = folder;
  base::fault_point("node.create.folder");

  record.id = spec.id;
  record.index = place.index;
  record.pid = place.shell->pid();
  ASSIGN_OR_RETURN(record.start_time, read_start_time(record.pid));
  record.boot_id = boot_id_;
  record.image = spec.containers.front().image;
  record.image_digest = layers.digest;
  record.layers = layers.folders;
  record.pull_ms = sandbox.status.pull_ms;
  RETURN_IF_ERROR(write_record(folder, record));
  base::fault_point("node.create.record");

  ASSIGN_OR_RETURN(const Fd config, base::sys::make_sealed_memory(
                                        "agent-config", agent_config(spec, layers.config)));
  ASSIGN_OR_RETURN(const Fd spool, base::sys::open_at(place.area_mount.get(), "spool",
                                                      O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  RETURN_IF_ERROR(place.shell->start({.hostname = spec.id,
                                      .no_new_privileges = spec.no_new_privileges,
                                      .root = root.get(),
                                      .listen = place.listen.get(),
                                      .config = config.get(),
                                      .oom_counter = place.oom_counter.get(),
                                      .spool = spool.get(),
                                      .state = place.state.get()}));
  base::fault_point("node.create.start");
  return {};
}

net::Task<Result<void>> Supervisor::wait_for_agent(jail::Shell& shell) {
  const int control = shell.control().get();
  const auto deadline = net::Deadline::after(kStartPatience);
  std::optional<jail::Shell::Outcome> outcome = shell.outcome();
  while (!outcome) {
    const auto wake = co_await loop_.wait(control, net::EventLoop::Direction::read, deadline);
    outcome = shell.outcome();
    if (wake != net::EventLoop::Wake::ready && !outcome) {
      loop_.forget(control);
      co_return base::fail(ErrorCode::internal, "the launcher did not answer in time");
    }
  }
  loop_.forget(control);
  if (!outcome->executed) {
    const auto& failure = outcome->failure;
    co_return std::unexpected(
        base::Error{.code = ErrorCode::internal, .message = jail::describe(failure)}.with(
            "step", std::string(jail::to_string(failure.step))));
  }
  co_return Result<void>{};
}

void Supervisor::adopt_process(const SandboxPointer& sandbox, Fd process) {
  sandbox->process = std::move(process);
  const std::weak_ptr<Sandbox> watched = sandbox;
  loop_.watch(sandbox->process.get(), net::EventLoop::Direction::read, [this, watched] {
    if (const auto target = watched.lock()) {
      process_ended(target);
    }
  });
}

// PID 1 is gone, and with it every process of its namespace.
void Supervisor::process_ended(const SandboxPointer& sandbox) {
  siginfo_t info{};
  // An adopted one is no child of ours: init reaps it.
  ::waitid(P_PIDFD, static_cast<id_t>(sandbox->process.get()), &info, WEXITED | WNOHANG);
  loop_.forget(sandbox->process.get());
  sandbox->process.reset();
  sandbox->changed->notify();
  if (sandbox->removing) {
    return;
  }
  const auto kills = places_.cgroups().oom_kills(Places::name_of(sandbox->record.index));
  const bool by_signal = info.si_pid == 0 || info.si_code == CLD_KILLED;
  if (by_signal && kills.value_or(0) > 0) {
    fail(sandbox, "out_of_memory", "out_of_memory", "the sandbox ran out of memory");
  } else {
    fail(sandbox, "", "agent_lost", "the sandbox's first process ended");
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
  if (sandbox->process) {
    ::syscall(SYS_pidfd_send_signal, sandbox->process.get(), SIGKILL, nullptr, 0);
    base::fault_point("node.remove.kill");
  }
  const auto deadline = net::Deadline::after(kDeathPatience);
  while (sandbox->process) {
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
  if (!sandbox->held.folders.empty()) {
    images_.unhold(sandbox->held);
    sandbox->held.folders.clear();
  }
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

void Supervisor::recover_one(const std::string& name) {
  const std::string folder = folder_of(name);
  auto record = is_sandbox_id(name) ? read_record(folder) : base::fail(ErrorCode::not_found);
  auto survivor = record ? find_survivor(*record) : base::fail(ErrorCode::not_found);
  const bool was_promised = record && (!survivor || survivor->executed);
  if (!was_promised) {
    // A place ahead of its sandbox, or one whose create was never answered.
    if (survivor) {
      ::syscall(SYS_pidfd_send_signal, survivor->process.get(), SIGKILL, nullptr, 0);
    }
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
  const auto adopted = survivor ? places_.adopt(sandbox->record.index, sandbox->record.network,
                                                sandbox->record.network_mark)
                                : Result<void>{};
  if (survivor && adopted) {
    sandbox->has_place = true;
    sandbox->status.state = State::ready;
    sandbox->held.digest = sandbox->record.image_digest;
    sandbox->held.folders = sandbox->record.layers;
    images_.hold(sandbox->held);
    adopt_process(sandbox, std::move(survivor->process));
    log_.info("adopted a sandbox", {{"id", name}});
    return;
  }
  const bool rebooted = sandbox->record.boot_id != boot_id_;
  fail(sandbox, "", rebooted ? "host_restarted" : "agent_lost",
       rebooted ? "the host was restarted" : "the sandbox ended while the node was away");
}

net::Task<void> Supervisor::stop() {
  group_.cancel();
  co_await group_.join();
  pool_.reset();
}

}  // namespace node
