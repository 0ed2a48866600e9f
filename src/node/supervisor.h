// The sandboxes of this machine: creates, watches, removes them and finds them again after a
// restart of the node. Owned by the node; loop thread only; nothing here blocks beyond short
// system calls. A sandbox is a record on disk from the moment before its process is let go until
// its last part is gone. Failures carry details.reason and, of a start, details.step.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "model/sandbox.h"
#include "net/event_loop.h"
#include "net/task.h"
#include "net/task_group.h"
#include "node/images.h"
#include "node/place.h"
#include "node/record.h"
#include "node/refusals.h"
#include "node/shell_pool.h"
#include "node/status.h"
#include "node/usage.h"

namespace node {

class Supervisor {
 public:
  // A page takes a few milliseconds, in which the node does nothing else.
  static constexpr size_t kUsagePage = 100;

  Supervisor(net::EventLoop& loop, Places& places, Images& images, base::Clock& clock,
             base::Log& log);
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;
  ~Supervisor();  // stop() must have ended; the sandboxes go on

  // Once, before anything else: adopts the sandboxes that live, removes what belongs to none.
  base::Result<void> recover();
  // Starts to keep `shells` places ready.
  void keep_ready(size_t shells);

  // Ready at once where the image is here; otherwise starting, with changes to follow. The same id
  // again: its present status.
  net::Task<base::Result<Status>> create(model::SandboxSpec spec);
  [[nodiscard]] base::Result<Status> get(const std::string& id) const;  // not_found
  [[nodiscard]] std::vector<Status> list() const;
  // Of the ready ones after `after` in order of their ids, at most kUsagePage.
  [[nodiscard]] std::vector<Usage> usage_after(const std::string& after) const;
  [[nodiscard]] base::Result<Usage> usage_of(const std::string& id) const;  // not_found, not_ready
  // Ends when nothing of it is left; unknown ids are fine.
  net::Task<base::Result<void>> remove(std::string id);
  base::Result<void> set_network(const std::string& id, model::NetworkPolicy policy);

  // What a policy refused the sandbox with that address: an event of it, unless there are too many.
  void note_refusal(uint32_t address, const Refusal& refusal);
  // Starts to look whether sandboxes without a network send something.
  void watch_refusals() { group_.spawn(watch_networks()); }
  // Told of every change, in order.
  void set_listener(std::function<void(const Change&)> listener) {
    listener_ = std::move(listener);
  }
  // Ends the work under way and the ready places.
  net::Task<void> stop();
  // Of no sandbox anything is left, alive or dead.
  [[nodiscard]] bool empty() const { return sandboxes_.empty(); }

 private:
  struct Sandbox {
    Status status;
    Record record;
    bool has_place = false;  // `record.index` is its own
    NetworkPlace network;    // empty for one that an earlier node made
    // Of each container, main first: a pidfd while its PID 1 has not been seen to end.
    std::vector<base::Fd> processes;
    bool changing = false;  // a start or a removal is under way
    bool removing = false;
    std::vector<ImageLayers> held;  // what it holds of the images
    std::unique_ptr<net::Event> changed;
    RefusalLimit refusals;
    int64_t sent_without_route = 0;  // when it was last looked at
  };
  using SandboxPointer = std::shared_ptr<Sandbox>;

  // supervisor_start.cc. Layers: of each container's image.
  net::Task<base::Result<void>> start(SandboxPointer sandbox, model::SandboxSpec spec,
                                      std::vector<ImageLayers> layers);
  base::Result<std::unique_ptr<Place>> take_place(const model::SandboxSpec& spec);
  base::Result<void> prepare(Sandbox& sandbox, Place& place, const model::SandboxSpec& spec,
                             const std::vector<ImageLayers>& layers);
  static uint32_t new_mark();  // of a network policy
  base::Result<void> limit_network(Record& record, Place& place, const model::SandboxSpec& spec);
  base::Result<void> set_limits(Place& place, const model::SandboxSpec& spec);
  base::Result<Record> make_record(const Sandbox& sandbox, const Place& place,
                                   const model::SandboxSpec& spec,
                                   const std::vector<ImageLayers>& layers) const;
  base::Result<void> start_agent(Place& place, const model::SandboxSpec& spec,
                                 const model::ContainerSpec& container, const ImageLayers& layers,
                                 const base::Fd& root, const std::string& volumes);
  net::Task<base::Result<void>> wait_for_agent(jail::Shell& shell);
  net::Task<base::Result<void>> wait_for_agents(Place& place);
  std::optional<std::vector<ImageLayers>> find_images(const model::SandboxSpec& spec);
  net::Task<base::Result<std::vector<ImageLayers>>> fetch_images(SandboxPointer sandbox,
                                                                 const model::SandboxSpec& spec);
  net::Task<void> pull_and_start(SandboxPointer sandbox, model::SandboxSpec spec);
  net::Task<base::Result<void>> remove_parts(SandboxPointer sandbox);
  net::Task<base::Result<void>> remove_cgroups(uint32_t index);
  struct Survivors;
  static Survivors find_survivors(const Record& record);
  void recover_one(const std::string& name);
  void hold_again(Sandbox& sandbox);
  static void kill_all(Sandbox& sandbox);
  void adopt_process(const SandboxPointer& sandbox, base::Fd process);
  void process_ended(const SandboxPointer& sandbox, size_t container);
  void fail(const SandboxPointer& sandbox, std::string type, std::string reason,
            std::string message);
  void tell(const Sandbox& sandbox, std::string type, std::string message);
  // supervisor_refusals.cc
  void tell_refusal(Sandbox& sandbox, const Refusal& refusal);
  static void begin_counting(Sandbox& sandbox);
  net::Task<void> watch_networks();
  [[nodiscard]] std::string folder_of(const std::string& id) const;

  net::EventLoop& loop_;
  Places& places_;
  Images& images_;
  base::Clock& clock_;
  base::Log& log_;
  std::string boot_id_;
  std::function<void(const Change&)> listener_;
  std::map<std::string, SandboxPointer> sandboxes_;
  std::unique_ptr<ShellPool> pool_;
  net::TaskGroup group_;
};

}  // namespace node
