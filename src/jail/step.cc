#include "jail/step.h"

#include <array>

#include "base/error.h"

namespace jail {
namespace {

constexpr std::array<std::string_view, 37> kNames{"close_descriptors",
                                                  "enter_cgroup",
                                                  "receive_first_order",
                                                  "become_root",
                                                  "reset_process",
                                                  "new_cgroup_namespace",
                                                  "make_mounts_private",
                                                  "make_proc",
                                                  "make_stage",
                                                  "attach_proc",
                                                  "forbid_user_namespaces",
                                                  "attach_sys",
                                                  "attach_dev",
                                                  "make_devpts",
                                                  "make_shm",
                                                  "make_mqueue",
                                                  "make_mask",
                                                  "read_only_path",
                                                  "enter_stage",
                                                  "drop_capabilities",
                                                  "set_limits",
                                                  "install_filter",
                                                  "receive_second_order",
                                                  "attach_root",
                                                  "open_mount_target",
                                                  "move_proc",
                                                  "move_sys",
                                                  "move_dev",
                                                  "attach_state",
                                                  "attach_mount",
                                                  "pivot_root",
                                                  "detach_old_root",
                                                  "set_hostname",
                                                  "arrange_descriptors",
                                                  "no_new_privileges",
                                                  "install_last_filter",
                                                  "execute_agent"};
static_assert(kNames.size() == static_cast<size_t>(Step::execute_agent) + 1);

}  // namespace

std::string_view to_string(Step step) noexcept {
  const auto index = static_cast<size_t>(step);
  return index < kNames.size() ? kNames[index] : std::string_view("unknown step");
}

std::string describe(const Failure& failure) {
  return base::errno_error(failure.errno_value, base::cat(to_string(failure.step), " failed"))
      .message;
}

}  // namespace jail
