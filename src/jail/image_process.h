// The confined process that handles images: started by the node in fresh user, mount, pid, ipc and
// uts namespaces, root of 65,536 host ids of its own and of nothing else. It dies with the node.
// Root only; failures are code io and name the step.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "base/error.h"
#include "base/fd.h"

namespace jail {

// Killed and reaped on destruction.
class ImageProcess {
 public:
  ImageProcess() = default;
  ImageProcess(ImageProcess&&) = default;
  ImageProcess& operator=(ImageProcess&&) = delete;
  ~ImageProcess();

  // Executes `PROGRAM --serve` with one end of a socket as descriptor 3.
  static base::Result<ImageProcess> start(const std::string& program, uint32_t id_base);

  // A copy of the mount at `folder` on which the process's id n is stored as plain n; without
  // devices and setuid, and read-only unless `writable`.
  [[nodiscard]] base::Result<base::Fd> map_folder(const std::string& folder, bool writable) const;

  base::Fd control;  // this side's end; blocking

 private:
  base::Fd process_;
  base::Fd user_namespace_;
};

}  // namespace jail
