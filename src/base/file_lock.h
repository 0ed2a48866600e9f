// A lock of a file: held until the descriptor is closed or the process ends, however it ends.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/error.h"
#include "base/fd.h"

namespace base {

// Makes the file where it is missing. conflict: another process has the lock.
Result<Fd> lock_file(const std::string& path, mode_t mode);

}  // namespace base
