// The services of a sandbox of several containers brought up in their order: each is started once
// what it depends on is as far as it says. All that is known of that lies with the containers'
// agents, which start a service once however often they are told: any gateway can begin, or go on
// where another one ended. Loop thread only; run() is awaited by its owner.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "model/sandbox.h"
#include "net/task_group.h"
#include "service/agent_call.h"
#include "service/containers.h"

namespace service {

class ServiceStart {
 public:
  // `is_wanted`: whether anybody still waits for it.
  ServiceStart(Context& context, std::string id, std::vector<model::ContainerSpec> containers,
               std::function<bool()> is_wanted);

  // Until all services run, and are healthy where they have a healthcheck; what has ended with code
  // 0 is fine where nobody needs it healthy. An error that has details.reason is the sandbox's
  // failure; cancelled: nobody wants it any more.
  net::Task<base::Result<void>> run();

 private:
  struct Progress {
    bool begun = false;
    bool started = false;
    size_t files = 0;  // of its own that lie in its container
    ServiceStatus status;
    std::string failure;
  };

  net::Task<void> bring_up(size_t number);
  [[nodiscard]] AgentQuestion next_question(size_t number) const;
  [[nodiscard]] bool is_next(size_t number) const;
  [[nodiscard]] bool is_settled(size_t number) const;
  [[nodiscard]] bool must_be_healthy(size_t number) const;
  [[nodiscard]] const Progress& progress_of(const std::string& name) const;
  [[nodiscard]] base::Result<void> find_failure() const;

  Context& context_;
  std::string id_;
  std::vector<model::ContainerSpec> containers_;
  std::function<bool()> is_wanted_;
  std::vector<Progress> progress_;
  net::Event changed_;
};

}  // namespace service
