// How a sandbox starts: its place, its containers' roots and mounts, its record, its agents.
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "base/fault.h"
#include "base/sys.h"
#include "jail/mounts.h"
#include "node/root_files.h"
#include "node/sandbox_root.h"
#include "node/spec_json.h"
#include "node/supervisor.h"

namespace node {
namespace {

using base::ErrorCode;
using base::Fd;
using base::Milliseconds;
using base::Result;

// From the last order to the agent's execve it takes a millisecond; this is for a host in trouble.
constexpr Milliseconds kStartPatience{20'000};
constexpr mode_t kVolumeMode = 0755;
constexpr int64_t kTmpfsMbLeast = 1;

Place& place_of(Place& main, size_t container) {
  return container == 0 ? main : *main.others[container - 1];
}
const Place& place_of(const Place& main, size_t container) {
  return container == 0 ? main : *main.others[container - 1];
}

// The first container is called as the sandbox, the others as their service.
std::string hostname_of(const model::SandboxSpec& spec, size_t container) {
  const model::ContainerSpec& one = spec.containers[container];
  if (!one.hostname.empty()) {
    return one.hostname;
  }
  return container == 0 ? spec.id : one.name;
}

// A container's own, or the sandbox's.
const model::RegistryAccess& access_of(const model::SandboxSpec& spec,
                                       const model::ContainerSpec& container) {
  return container.service ? container.registry : spec.registry;
}

bool is_grouped(const model::SandboxSpec& spec) {
  return spec.containers.size() > 1 || spec.containers.front().service;
}

// The folder of a volume: by its number, whatever it is called.
Result<std::string> make_volume_folder(const std::string& volumes, size_t number, uint32_t owner) {
  RETURN_IF_ERROR(base::sys::make_folder(volumes, kVolumeMode));
  std::string folder = base::cat(volumes, "/", number);
  RETURN_IF_ERROR(base::sys::make_folder(folder, kVolumeMode));
  if (::lchown(folder.c_str(), owner, owner) != 0) {
    return base::fail_errno(errno, "chown ", folder);
  }
  return folder;
}

// Each volume's number: that of its first mention.
size_t number_of(const model::SandboxSpec& spec, const std::string& volume) {
  std::vector<std::string> known;
  for (const model::ContainerSpec& container : spec.containers) {
    for (const model::Mount& mount : container.mounts) {
      const auto found = std::ranges::find(known, mount.volume);
      if (found == known.end()) {
        known.push_back(mount.volume);
      }
      if (mount.volume == volume) {
        return static_cast<size_t>(std::ranges::find(known, volume) - known.begin());
      }
    }
  }
  return known.size();
}

Result<Fd> make_mount(const model::SandboxSpec& spec, const model::ContainerSpec& container,
                      const model::Mount& mount, const std::string& volumes, uint32_t owner) {
  if (mount.volume.empty()) {
    const int64_t most = container.memory_mb > 0 ? container.memory_mb : spec.resources.memory_mb;
    const int64_t size = mount.size_mb > 0 ? std::min(mount.size_mb, most) : most;
    return jail::make_tmpfs(owner, std::max(size, kTmpfsMbLeast), mount.read_only);
  }
  ASSIGN_OR_RETURN(const std::string folder,
                   make_volume_folder(volumes, number_of(spec, mount.volume), owner));
  return jail::make_volume(folder, mount.read_only);
}

}  // namespace

// Of all containers' images, or nothing where one of them is not here.
std::optional<std::vector<ImageLayers>> Supervisor::find_images(const model::SandboxSpec& spec) {
  std::vector<ImageLayers> all;
  for (const model::ContainerSpec& container : spec.containers) {
    auto layers =
        spec.always_pull ? std::nullopt : images_.find(container.image, access_of(spec, container));
    if (!layers) {
      return std::nullopt;
    }
    all.push_back(std::move(*layers));
  }
  return all;
}

net::Task<Result<std::vector<ImageLayers>>> Supervisor::fetch_images(
    SandboxPointer sandbox, const model::SandboxSpec& spec) {
  const std::weak_ptr<Sandbox> watched = sandbox;
  std::vector<ImageLayers> all;
  for (const model::ContainerSpec& container : spec.containers) {
    auto on_event = [this, watched](std::string type, std::string message) {
      const auto target = watched.lock();
      if (target && !target->removing) {
        tell(*target, std::move(type), std::move(message));
      }
    };
    CO_ASSIGN_OR_RETURN(auto layers,
                        co_await images_.ensure(container.image, access_of(spec, container),
                                                spec.always_pull, std::move(on_event)));
    if (sandbox->removing) {
      co_return base::fail(ErrorCode::cancelled, "it is being removed");
    }
    all.push_back(std::move(layers));
  }
  co_return all;
}

Result<std::unique_ptr<Place>> Supervisor::take_place(const model::SandboxSpec& spec) {
  if (spec.builder) {
    return places_.make(jail::Profile::builder);
  }
  return is_grouped(spec) ? places_.make_group(spec.containers.size()) : pool_->take();
}

net::Task<Result<void>> Supervisor::start(SandboxPointer sandbox, model::SandboxSpec spec,
                                          std::vector<ImageLayers> layers) {
  const ImageConfig& image = layers.front().config;
  if (spec.containers.front().run_entrypoint && image.entrypoint.empty() && image.cmd.empty()) {
    co_return base::fail_field("run_entrypoint", "the image has neither ENTRYPOINT nor CMD");
  }
  const auto begin = clock_.steady();
  sandbox->changing = true;
  for (const ImageLayers& one : layers) {
    images_.hold(one);
  }
  auto taken = take_place(spec);
  Result<void> started;
  if (!taken) {
    started = std::unexpected(taken.error());
  } else {
    const std::unique_ptr<Place>& place = *taken;
    base::fault_point("node.create.place");
    started = prepare(*sandbox, *place, spec, layers);
    if (started) {
      auto executed = co_await wait_for_agents(*place);
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
    for (size_t i = 0; i < spec.containers.size(); ++i) {
      adopt_process(sandbox, place_of(**taken, i).shell->take_process());
    }
    // Closing its mounts waits for a grace period each; the answer goes out first.
    loop_.post([spent = std::shared_ptr<Place>(std::move(*taken))] {});
  } else {
    for (const ImageLayers& one : layers) {
      images_.unhold(one);
    }
    if (taken) {
      places_.discard(std::move(*taken));
    }
  }
  sandbox->changed->notify();
  co_return started;
}

Result<void> Supervisor::set_limits(Place& place, const model::SandboxSpec& spec) {
  RETURN_IF_ERROR(places_.storage().set_limit(place.name, spec.resources.storage_mb));
  RETURN_IF_ERROR(places_.cgroups().limit(place.name, spec.resources));
  if (!is_grouped(spec)) {
    return {};
  }
  const auto at_most = [](int64_t own, int64_t all) { return own > 0 ? std::min(own, all) : all; };
  for (size_t i = 0; i < spec.containers.size(); ++i) {
    const model::ContainerSpec& container = spec.containers[i];
    model::Resources own = spec.resources;
    own.millicpus = at_most(container.millicpus, own.millicpus);
    own.memory_mb = at_most(container.memory_mb, own.memory_mb);
    own.pids = at_most(container.pids, own.pids);
    RETURN_IF_ERROR(places_.cgroups().limit(place_of(place, i).cgroup, own));
  }
  return {};
}

Result<void> Supervisor::limit_network(Record& record, Place& place,
                                       const model::SandboxSpec& spec) {
  if (spec.network.mode != model::NetworkMode::open) {
    record.network = spec.network;
    record.network_mark = new_mark();
    RETURN_IF_ERROR(places_.network().set_policy(place.index, record.network, record.network_mark));
  }
  if (spec.network.mode == model::NetworkMode::allow) {
    for (size_t i = 0; i < spec.containers.size(); ++i) {
      RETURN_IF_ERROR(ensure_name_server(place_of(place, i).area_mount.get()));
    }
  }
  return {};
}

Result<Record> Supervisor::make_record(const Sandbox& sandbox, const Place& place,
                                       const model::SandboxSpec& spec,
                                       const std::vector<ImageLayers>& layers) const {
  Record record = sandbox.record;  // which has the network policy
  record.id = spec.id;
  record.index = place.index;
  record.boot_id = boot_id_;
  record.image = spec.containers.front().image;
  record.image_digest = layers.front().digest;
  record.layers = layers.front().folders;
  record.pull_ms = sandbox.status.pull_ms;
  record.grouped = is_grouped(spec);
  for (size_t i = 0; i < spec.containers.size(); ++i) {
    RecordedProcess process{.pid = place_of(place, i).shell->pid()};
    ASSIGN_OR_RETURN(process.start_time, read_start_time(process.pid));
    if (i == 0) {
      record.process = process;
    } else {
      record.others.push_back({.name = spec.containers[i].name,
                               .process = process,
                               .image_digest = layers[i].digest,
                               .layers = layers[i].folders});
    }
  }
  return record;
}

Result<void> Supervisor::prepare(Sandbox& sandbox, Place& place, const model::SandboxSpec& spec,
                                 const std::vector<ImageLayers>& layers) {
  RETURN_IF_ERROR(set_limits(place, spec));
  RETURN_IF_ERROR(limit_network(sandbox.record, place, spec));
  base::fault_point("node.create.limits");
  std::vector<Fd> roots;
  for (size_t i = 0; i < spec.containers.size(); ++i) {
    ASSIGN_OR_RETURN(Fd root, make_sandbox_root(place_of(place, i), layers[i].folders,
                                                places_.options().images_folder,
                                                hostname_of(spec, i), spec.containers[i].hosts));
    roots.push_back(std::move(root));
  }
  base::fault_point("node.create.overlay");
  const std::string folder = folder_of(spec.id);
  if (::rename(place.folder.c_str(), folder.c_str()) != 0) {
    return base::fail_errno(errno, "rename ", place.folder);
  }
  place.folder = folder;
  base::fault_point("node.create.folder");
  ASSIGN_OR_RETURN(sandbox.record, make_record(sandbox, place, spec, layers));
  RETURN_IF_ERROR(write_record(folder, sandbox.record));
  base::fault_point("node.create.record");
  for (size_t i = 0; i < spec.containers.size(); ++i) {
    RETURN_IF_ERROR(start_agent(place_of(place, i), spec, spec.containers[i], layers[i], roots[i],
                                place.area + "/volumes"));
  }
  base::fault_point("node.create.start");
  return {};
}

Result<void> Supervisor::start_agent(Place& place, const model::SandboxSpec& spec,
                                     const model::ContainerSpec& container,
                                     const ImageLayers& layers, const Fd& root,
                                     const std::string& volumes) {
  std::vector<Fd> mounts;
  std::vector<jail::StartOptions::Mount> handed;
  for (const model::Mount& mount : container.mounts) {
    ASSIGN_OR_RETURN(Fd made, make_mount(spec, container, mount, volumes, place.owner));
    handed.push_back({.fd = made.get(), .target = mount.target});
    mounts.push_back(std::move(made));
  }
  const auto number = static_cast<size_t>(&container - spec.containers.data());
  ASSIGN_OR_RETURN(
      const Fd config,
      base::sys::make_sealed_memory("agent-config", agent_config(spec, container, layers.config)));
  ASSIGN_OR_RETURN(const Fd spool, base::sys::open_at(place.area_mount.get(), "spool",
                                                      O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  return place.shell->start({.hostname = hostname_of(spec, number),
                             .no_new_privileges = spec.no_new_privileges,
                             .root = root.get(),
                             .listen = place.listen.get(),
                             .config = config.get(),
                             .oom_counter = place.oom_counter.get(),
                             .spool = spool.get(),
                             .state = place.state.get(),
                             .mounts = std::move(handed)});
}

net::Task<Result<void>> Supervisor::wait_for_agents(Place& place) {
  CO_RETURN_IF_ERROR(co_await wait_for_agent(*place.shell));
  for (const std::unique_ptr<Place>& other : place.others) {
    CO_RETURN_IF_ERROR(co_await wait_for_agent(*other->shell));
  }
  co_return Result<void>{};
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

}  // namespace node
