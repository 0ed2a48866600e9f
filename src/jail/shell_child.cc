#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/close_range.h>
#include <linux/keyctl.h>
#include <linux/openat2.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "jail/shell_plan.h"
#include "jail/step.h"

namespace jail {
namespace {

// Docker's usual set. Over the network namespace and the host none of them has any power.
constexpr uint64_t kKeptCapabilities =
    1ULL << CAP_CHOWN | 1ULL << CAP_DAC_OVERRIDE | 1ULL << CAP_FSETID | 1ULL << CAP_FOWNER |
    1ULL << CAP_MKNOD | 1ULL << CAP_NET_RAW | 1ULL << CAP_SETGID | 1ULL << CAP_SETUID |
    1ULL << CAP_SETFCAP | 1ULL << CAP_SETPCAP | 1ULL << CAP_NET_BIND_SERVICE |
    1ULL << CAP_SYS_CHROOT | 1ULL << CAP_KILL | 1ULL << CAP_AUDIT_WRITE;

// What making mounts and namespaces takes, over those that the builder's own root owns. Without
// CAP_SYS_RESOURCE the limit of user namespaces stays what the launcher set.
constexpr uint64_t kBuilderCapabilities =
    kKeptCapabilities | 1ULL << CAP_SYS_ADMIN | 1ULL << CAP_NET_ADMIN | 1ULL << CAP_SYS_PTRACE |
    1ULL << CAP_DAC_READ_SEARCH | 1ULL << CAP_IPC_OWNER | 1ULL << CAP_LEASE | 1ULL << CAP_SYS_NICE |
    1ULL << CAP_LINUX_IMMUTABLE;

// A mount point that every Linux host has; inside its own namespace the shell builds on it.
constexpr const char* kStage = "/proc";
// As runtimes have it; what the kernel at hand lacks is skipped.
constexpr std::array kMasked{
    "/proc/asound",      "/proc/acpi",          "/proc/kcore",
    "/proc/keys",        "/proc/latency_stats", "/proc/timer_list",
    "/proc/timer_stats", "/proc/sched_debug",   "/proc/scsi",
    "/proc/interrupts",  "/sys/firmware",       "/sys/devices/virtual/powercap"};
constexpr std::array kReadOnly{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys",
                               "/proc/sysrq-trigger"};
// Above every number the agent is given, so that placing one never overwrites another.
constexpr int kFirstFreeFd = 32;
static_assert(kAgentCoveredFd + kMountsMax <= kFirstFreeFd);
constexpr char kProcFolder[] = "/proc/";
constexpr int kSignals = 64;

class Child {
 public:
  explicit Child(const ShellPlan& plan) noexcept : plan_(plan) {}

  [[noreturn]] void run() noexcept {
    close_descriptors();
    enter_cgroups();
    std::array<int, kFirstOrderFds> fds{};
    FirstOrder order;
    receive(Step::receive_first_order, &order, sizeof order, fds, kFirstOrderFds);
    become_root();
    reset_process();
    build_stage(fds);
    mask();

    confine();
    start();
  }

 private:
  [[noreturn]] void give_up(Step step, int error) const noexcept {
    const Failure failure{step, error};
    [[maybe_unused]] const auto sent =
        ::send(plan_.control, &failure, sizeof failure, MSG_NOSIGNAL | MSG_DONTWAIT);
    ::_exit(1);
  }
  // A call's result, or the end.
  int must(Step step, long result) const noexcept {
    if (result < 0) {
      give_up(step, errno);
    }
    return static_cast<int>(result);
  }

  // The copies of the node's descriptors go before anything waits: a shell that held another's
  // socket or a client's connection would keep it open.
  void close_descriptors() noexcept {
    std::array<int, kCgroupsMax + 3> kept{};
    size_t count = 0;
    for (size_t i = 0; i < plan_.cgroup_tasks_count; ++i) {
      kept[count++] = plan_.cgroup_tasks[i];
    }
    for (const int fd : {plan_.control, plan_.agent, plan_.v2_folder}) {
      if (fd >= 0) {
        kept[count++] = fd;
      }
    }
    std::sort(kept.begin(), kept.begin() + count);
    unsigned first = 0;
    for (size_t i = 0; i < count; ++i) {
      const auto fd = static_cast<unsigned>(kept[i]);
      if (fd > first) {
        must(Step::close_descriptors, ::syscall(SYS_close_range, first, fd - 1, 0));
      }
      first = fd + 1;
    }
    must(Step::close_descriptors, ::syscall(SYS_close_range, first, ~0U, 0));
  }

  // Writing 0 to `tasks` moves the writer without the global lock that a pid in cgroup.procs takes.
  void enter_cgroups() noexcept {
    for (size_t i = 0; i < plan_.cgroup_tasks_count; ++i) {
      const int fd = plan_.cgroup_tasks[i];
      must(Step::enter_cgroup, ::write(fd, "0", 1));
      ::close(fd);
    }
    if (plan_.reset_oom_score) {
      const int fd = ::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
      must(Step::enter_cgroup, fd);
      must(Step::enter_cgroup, ::write(fd, "0", 1));
      ::close(fd);
    }
  }

  // One order with at least `fds_min` descriptors; returns how many came. The end of the stream is
  // the node's end: nobody needs this shell any more.
  size_t receive(Step step, void* order, size_t size, std::span<int> fds, size_t fds_min) noexcept {
    iovec part{.iov_base = order, .iov_len = size};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kSecondOrderFdsMax)];
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    ssize_t count = -1;
    do {
      count = ::recvmsg(plan_.control, &message, MSG_CMSG_CLOEXEC);
    } while (count < 0 && errno == EINTR);
    if (count == 0) {
      ::_exit(0);
    }
    must(step, count);
    const cmsghdr* header = CMSG_FIRSTHDR(&message);
    size_t received = 0;
    if (header != nullptr && header->cmsg_type == SCM_RIGHTS) {
      received = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      received = std::min(received, fds.size());
      ::memcpy(fds.data(), CMSG_DATA(header), received * sizeof(int));
    }
    if (static_cast<size_t>(count) != size || received < fds_min) {
      give_up(step, EBADMSG);
    }
    return received;
  }

  // The process still has host ids, which are unmapped here: without this every open fails.
  void become_root() noexcept {
    must(Step::become_root, ::syscall(SYS_setresgid, 0, 0, 0));
    must(Step::become_root, ::syscall(SYS_setgroups, 0, nullptr));
    must(Step::become_root, ::syscall(SYS_setresuid, 0, 0, 0));
  }

  void reset_process() noexcept {
    must(Step::reset_process, ::setsid());
    // A keyring of its own; without the key facility there is nothing to separate.
    if (::syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, nullptr) < 0 && errno != ENOSYS) {
      give_up(Step::reset_process, errno);
    }
    struct sigaction action{};
    action.sa_handler = SIG_DFL;
    for (int number = 1; number <= kSignals; ++number) {
      ::sigaction(number, &action, nullptr);  // KILL and STOP refuse, which is fine
    }
    sigset_t none;
    ::sigemptyset(&none);
    must(Step::reset_process, ::sigprocmask(SIG_SETMASK, &none, nullptr));
    ::umask(0022);
    must(Step::reset_process, ::prctl(PR_SET_NAME, kShellName));
    must(Step::reset_process, ::prctl(PR_SET_DUMPABLE, 0));
    // After the cgroups were entered, so that they are the root the sandbox sees.
    must(Step::new_cgroup_namespace, ::unshare(CLONE_NEWCGROUP));
  }

  struct Option {
    const char* key;
    const char* value;
  };
  int new_mount(Step step, const char* type, std::initializer_list<Option> options,
                unsigned attributes) const noexcept {
    const int context = must(step, ::fsopen(type, FSOPEN_CLOEXEC));
    must(step, ::fsconfig(context, FSCONFIG_SET_STRING, "source", type, 0));
    for (const Option& option : options) {
      const auto command = option.value == nullptr ? FSCONFIG_SET_FLAG : FSCONFIG_SET_STRING;
      must(step, ::fsconfig(context, command, option.key, option.value, 0));
    }
    must(step, ::fsconfig(context, FSCONFIG_CMD_CREATE, nullptr, nullptr, 0));
    const int mount = must(step, ::fsmount(context, FSMOUNT_CLOEXEC, attributes));
    ::close(context);
    return mount;
  }
  void attach(Step step, int mount, const char* path) const noexcept {
    must(step, ::move_mount(mount, "", AT_FDCWD, path, MOVE_MOUNT_F_EMPTY_PATH));
    ::close(mount);
  }

  // Everything that will be mounted in the sandbox's root, on a small file system of its own.
  void build_stage(std::span<const int> fds) noexcept {
    must(Step::make_mounts_private, ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr));
    constexpr unsigned kInert = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC;
    // While the host's own proc is still in sight: the kernel wants to see that nothing is hidden.
    const int proc = new_mount(Step::make_proc, "proc", {}, kInert);
    attach(Step::make_stage,
           new_mount(Step::make_stage, "tmpfs", {{"size", "64k"}, {"mode", "0755"}}, kInert),
           kStage);
    must(Step::make_stage, ::chdir(kStage));
    for (const char* name : {"proc", "sys", "dev", "root", "empty"}) {
      must(Step::make_stage, ::mkdir(name, 0755));
    }
    attach(Step::attach_proc, proc, "proc");
    forbid_user_namespaces();
    attach(Step::attach_sys, fds[kSysFd], "sys");
    attach(Step::attach_dev, fds[kDevFd], "dev");
    attach(
        Step::make_devpts,
        new_mount(Step::make_devpts, "devpts",
                  {{"newinstance", nullptr}, {"ptmxmode", "0666"}, {"mode", "0620"}, {"gid", "5"}},
                  MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC),
        "dev/pts");
    attach(Step::make_shm, new_mount(Step::make_shm, "tmpfs", {{"mode", "1777"}}, kInert),
           "dev/shm");
    attach(Step::make_mqueue, new_mount(Step::make_mqueue, "mqueue", {}, kInert), "dev/mqueue");
    enter_stage_root();
  }

  // The limit belongs to this user namespace, and without CAP_SYS_RESOURCE nobody in it can raise
  // it again: no call, whatever its arguments, makes a nested one.
  void forbid_user_namespaces() const noexcept {
    constexpr Step kStep = Step::forbid_user_namespaces;
    const int fd = must(kStep, ::open("proc/sys/user/max_user_namespaces", O_WRONLY | O_CLOEXEC));
    must(kStep, ::write(fd, "0", 1));
    ::close(fd);
  }

  // The host's mounts leave this namespace here, long before anything hostile runs in it.
  void enter_stage_root() const noexcept {
    must(Step::enter_stage, ::syscall(SYS_pivot_root, ".", "."));
    must(Step::enter_stage, ::umount2(".", MNT_DETACH));
    must(Step::enter_stage, ::chdir("/"));
  }

  int clone_mount(Step step, const char* path, unsigned attributes) const noexcept {
    const int mount = must(step, ::open_tree(AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC));
    mount_attr change{};
    change.attr_set = attributes;
    must(step, ::mount_setattr(mount, "", AT_EMPTY_PATH, &change, sizeof change));
    return mount;
  }

  // The kernel lets a proc be mounted only by who sees all of another one.
  bool stays_open(const char* path) const noexcept {
    return plan_.profile == Profile::builder &&
           ::strncmp(path, kProcFolder, sizeof kProcFolder - 1) == 0;
  }

  void mask() noexcept {
    for (const char* path : kMasked) {
      struct stat status{};
      if (stays_open(path) || ::lstat(path, &status) != 0) {
        continue;
      }
      // The node made /dev/null itself and nothing of an image is mounted yet.
      const bool folder = S_ISDIR(status.st_mode);
      attach(Step::make_mask,
             clone_mount(Step::make_mask, folder ? "/empty" : "/dev/null", MOUNT_ATTR_RDONLY),
             path);
    }
    for (const char* path : kReadOnly) {
      struct stat status{};
      if (!stays_open(path) && ::lstat(path, &status) == 0) {
        attach(Step::read_only_path, clone_mount(Step::read_only_path, path, MOUNT_ATTR_RDONLY),
               path);
      }
    }
  }

  void install(Step step, std::span<const sock_filter> filter) const noexcept {
    sock_fprog program{};
    program.len = static_cast<unsigned short>(filter.size());
    program.filter = const_cast<sock_filter*>(filter.data());
    must(step,
         ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program));
  }

  void confine() const noexcept {
    // At the agent's execve uid 0 gains what is left in this set and no more.
    const uint64_t kept =
        plan_.profile == Profile::builder ? kBuilderCapabilities : kKeptCapabilities;
    for (int capability = 0; capability <= CAP_LAST_CAP; ++capability) {
      if ((kept >> static_cast<unsigned>(capability) & 1U) == 0 &&
          ::prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0 && errno != EINVAL) {
        give_up(Step::drop_capabilities, errno);
      }
    }
    const rlimit files{plan_.open_files, plan_.open_files};
    must(Step::set_limits, ::setrlimit(RLIMIT_NOFILE, &files));
    const rlimit core{0, RLIM_INFINITY};
    rlimit old_core{};
    must(Step::set_limits, ::getrlimit(RLIMIT_CORE, &old_core));
    const rlimit new_core{core.rlim_cur, old_core.rlim_max};
    must(Step::set_limits, ::setrlimit(RLIMIT_CORE, &new_core));
    install(Step::install_filter, plan_.filter_policy);
  }

  // A folder of the image to mount on, made where the image has none. No link is followed, so an
  // image cannot point a mount elsewhere; it then does not start.
  int open_target(int root, const char* name) const noexcept {
    open_how how{};
    how.flags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
    long fd = ::syscall(SYS_openat2, root, name, &how, sizeof how);
    if (fd < 0 && errno == ENOENT) {
      must(Step::open_mount_target, ::mkdirat(root, name, 0755));
      fd = ::syscall(SYS_openat2, root, name, &how, sizeof how);
    }
    return must(Step::open_mount_target, fd);
  }
  void move_in(Step step, const char* from, int root, const char* name) const noexcept {
    const int target = open_target(root, name);
    must(step, ::move_mount(AT_FDCWD, from, target, "", MOVE_MOUNT_T_EMPTY_PATH));
    ::close(target);
  }

  // The folder `target` of the sandbox, made with its parents where there is none. Links of the
  // image are followed within its root, as a path is inside.
  int open_mount_point(int root, const char* target) const noexcept {
    open_how how{};
    how.flags = O_PATH | O_DIRECTORY | O_CLOEXEC;
    how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
    std::array<char, kMountTargetMax + 1> path{};
    int parent = must(Step::attach_mount, ::fcntl(root, F_DUPFD_CLOEXEC, 0));
    for (size_t at = 0; target[at] != '\0';) {
      const size_t begin = at + 1;  // behind its slash
      do {
        path[at] = target[at];
        ++at;
      } while (target[at] != '\0' && target[at] != '/');
      path[at] = '\0';
      long fd = ::syscall(SYS_openat2, root, path.data(), &how, sizeof how);
      if (fd < 0 && errno == ENOENT) {
        must(Step::attach_mount, ::mkdirat(parent, path.data() + begin, 0755));
        fd = ::syscall(SYS_openat2, root, path.data(), &how, sizeof how);
      }
      must(Step::attach_mount, fd);
      ::close(parent);
      parent = static_cast<int>(fd);
    }
    return parent;
  }

  // Each mount's descriptor becomes that of the folder below it.
  void attach_mounts(const SecondOrder& order, std::span<int> mounts, int root) const noexcept {
    for (size_t i = 0; i < order.mounts_count; ++i) {
      const int target = open_mount_point(root, order.mount_targets[i].data());
      must(Step::attach_mount, ::move_mount(mounts[i], "", target, "",
                                            MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH));
      ::close(mounts[i]);
      mounts[i] = target;
    }
  }

  void attach_state(int state, int root) const noexcept {
    const int target = open_target(root, kStateFolder);
    must(Step::attach_state,
         ::move_mount(state, "", target, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH));
    ::close(target);
  }

  [[noreturn]] void start() noexcept {
    SecondOrder order;
    std::array<int, kSecondOrderFdsMax> fds{};
    const size_t received =
        receive(Step::receive_second_order, &order, sizeof order, fds, kSecondOrderFdsMin);
    if (order.mounts_count > kMountsMax || received < first_mount(order) + order.mounts_count) {
      give_up(Step::receive_second_order, EBADMSG);
    }
    const int root = fds[kRootFd];
    must(Step::attach_root, ::move_mount(root, "", AT_FDCWD, "/root", MOVE_MOUNT_F_EMPTY_PATH));
    move_in(Step::move_proc, "/proc", root, "proc");
    move_in(Step::move_sys, "/sys", root, "sys");
    move_in(Step::move_dev, "/dev", root, "dev");
    if (order.has_state) {
      attach_state(fds[kSecondOrderFdsMin + order.has_oom_counter + order.has_spool], root);
    }
    attach_mounts(order, std::span(fds).subspan(first_mount(order)), root);
    must(Step::pivot_root, ::fchdir(root));
    must(Step::pivot_root, ::syscall(SYS_pivot_root, ".", "."));
    must(Step::detach_old_root, ::umount2(".", MNT_DETACH));
    must(Step::detach_old_root, ::chdir("/"));
    const char* hostname = order.hostname.data();
    must(Step::set_hostname, ::sethostname(hostname, ::strnlen(hostname, kHostnameMax)));
    arrange(order, fds);
    if (order.no_new_privileges) {
      must(Step::no_new_privileges, ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    }
    install(Step::install_last_filter, plan_.filter_last);
    const char* const environment[] = {nullptr};
    ::syscall(SYS_execveat, agent_, "", plan_.arguments, environment, AT_EMPTY_PATH);
    give_up(Step::execute_agent, errno);
  }

  static size_t first_mount(const SecondOrder& order) noexcept {
    return size_t{kSecondOrderFdsMin} + order.has_oom_counter + order.has_spool + order.has_state;
  }

  int lift(int fd) const noexcept {
    return fd < 0 ? -1
                  : must(Step::arrange_descriptors, ::fcntl(fd, F_DUPFD_CLOEXEC, kFirstFreeFd));
  }
  void place(int fd, int number) const noexcept {
    if (fd >= 0) {
      must(Step::arrange_descriptors, ::dup3(fd, number, 0));
    }
  }
  void arrange(const SecondOrder& order, std::span<const int> fds) noexcept {
    size_t next = kSecondOrderFdsMin;
    const int listen = lift(fds[kListenFd]);
    const int config = lift(fds[kConfigFd]);
    const int oom = lift(order.has_oom_counter ? fds[next++] : -1);
    const int spool = lift(order.has_spool ? fds[next++] : -1);
    std::array<int, kMountsMax> covered{};
    for (size_t i = 0; i < order.mounts_count; ++i) {
      covered[i] = lift(fds[first_mount(order) + i]);
    }
    const int group = lift(plan_.v2_folder);
    agent_ = lift(plan_.agent);
    control_ = lift(plan_.control);
    // /dev is the node's own template, so this is the null device.
    const int null = lift(must(Step::arrange_descriptors, ::open("/dev/null", O_RDWR | O_CLOEXEC)));
    // All that is left below are copies; the reports of a failure need the socket's new number.
    plan_.control = control_;
    must(Step::arrange_descriptors, ::syscall(SYS_close_range, 0U, kFirstFreeFd - 1U, 0));
    for (const int number : {0, 1, 2}) {
      place(null, number);
    }
    place(listen, kAgentListenFd);
    place(config, kAgentConfigFd);
    place(group, kAgentCgroupFd);
    place(oom, kAgentOomFd);
    place(spool, kAgentSpoolFd);
    for (size_t i = 0; i < order.mounts_count; ++i) {
      place(covered[i], kAgentCoveredFd + static_cast<int>(i));
    }
  }

  ShellPlan plan_;
  int agent_ = -1;
  int control_ = -1;
};

}  // namespace

void run_shell(const ShellPlan& plan) noexcept {
  Child child(plan);
  child.run();
}

}  // namespace jail
