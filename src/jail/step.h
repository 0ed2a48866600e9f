// The steps of the launcher between clone3 and the agent's execveat, as data: a failure crosses the
// process boundary as {step, errno} and becomes a sentence on the other side. Pure values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace jail {

enum class Step : uint8_t {
  close_descriptors,
  enter_cgroup,
  receive_first_order,
  become_root,
  reset_process,
  new_cgroup_namespace,
  make_mounts_private,
  make_proc,
  make_stage,
  attach_proc,
  forbid_user_namespaces,
  attach_sys,
  attach_dev,
  make_devpts,
  make_shm,
  make_mqueue,
  make_mask,
  read_only_path,
  enter_stage,
  drop_capabilities,
  set_limits,
  install_filter,
  receive_second_order,
  attach_root,
  open_mount_target,
  move_proc,
  move_sys,
  move_dev,
  attach_state,
  attach_mount,
  pivot_root,
  detach_old_root,
  set_hostname,
  arrange_descriptors,
  no_new_privileges,
  install_last_filter,
  execute_agent,
};

// "pivot_root" and so on; "unknown step" for a number out of range.
std::string_view to_string(Step step) noexcept;

// What a child sends when it gives up.
struct Failure {
  Step step = Step::close_descriptors;
  int32_t errno_value = 0;
};
// "pivot_root failed: Invalid argument".
std::string describe(const Failure& failure);

}  // namespace jail
