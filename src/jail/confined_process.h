// A confined process that reads hostile bytes in the node's place (images, names): started in
// fresh user, mount, pid, ipc and uts namespaces, root of host ids of its own and of nothing else.
// It dies with the node. Root only; failures are code io and name the step.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "base/error.h"
#include "base/fd.h"

namespace jail {

struct ConfinedOptions {
  std::string program;
  uint32_t id_base = 0;  // the first of its host ids
  uint32_t ids = 1;
  bool own_network = false;  // a network namespace without any interface
};

// Killed and reaped on destruction.
class ConfinedProcess {
 public:
  ConfinedProcess() = default;
  ConfinedProcess(ConfinedProcess&&) = default;
  ConfinedProcess& operator=(ConfinedProcess&&) = delete;
  ~ConfinedProcess();

  // Executes `PROGRAM --serve` with one end of a stream socket as descriptor 3.
  static base::Result<ConfinedProcess> start(const ConfinedOptions& options);

  // A copy of the mount at `folder` on which the process's id n is stored as plain n; without
  // devices and setuid, and read-only unless `writable`.
  [[nodiscard]] base::Result<base::Fd> map_folder(const std::string& folder, bool writable) const;

  base::Fd control;  // this side's end; blocking

 private:
  base::Fd process_;
  base::Fd user_namespace_;
};

}  // namespace jail
