// The system calls a sandbox may make, as BPF programs made once by the node (libseccomp) and
// installed by each child. Two programs: `policy` is the allow-list plus the four calls that the
// launcher itself still needs when it is installed, `last` takes these four and a few harmful
// arguments away just before the agent is executed. Installing the large one ahead is what makes
// a start cheap. A builder's programs also make namespaces and mounts, all of them within its user
// namespace. Immutable after make(); the children read it from their copy of the memory.
#pragma once

#include <linux/filter.h>

#include <vector>

#include "base/error.h"
#include "jail/shell_plan.h"

namespace jail {

struct SeccompFilter {
  std::vector<sock_filter> policy;
  std::vector<sock_filter> last;
};

base::Result<SeccompFilter> make_seccomp_filter(Profile profile);

}  // namespace jail
