// Tries what a sandbox must not be able to do and prints "name ERRNO" (or OK) a line. Each call
// runs in a child, so a kill by the filter is seen as KILLED. Used by isolation_test.py and
// network_test.py; static, so that it runs in any image.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/btrfs.h>
#include <linux/in6.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define KEY_SPEC_SESSION_KEYRING -3

static const char* name_of(int number) {
  const char* name = number == 0 ? "OK" : strerrorname_np(number);
  return name != NULL ? name : "UNKNOWN";
}

static void report(const char* name, const char* outcome) {
  printf("%s %s\n", name, outcome);
  fflush(stdout);
}

static long new_user_namespace(void) { return unshare(CLONE_NEWUSER); }
static long new_mount_namespace(void) { return unshare(CLONE_NEWNS); }
static long new_net_namespace(void) { return unshare(CLONE_NEWUSER | CLONE_NEWNET); }
static long clone3_user(void) {
  struct clone_args args = {.flags = CLONE_NEWUSER, .exit_signal = SIGCHLD};
  const long pid = syscall(SYS_clone3, &args, sizeof args);
  if (pid == 0) {
    _exit(0);
  }
  return pid;
}
static long setns_of_init(void) {
  const int fd = open("/proc/1/ns/user", O_RDONLY);
  return fd < 0 ? fd : setns(fd, 0);
}
static long mount_tmpfs(void) { return mount("none", "/mnt", "tmpfs", 0, NULL); }
static long remount_root(void) { return mount("none", "/", NULL, MS_REMOUNT | MS_BIND, NULL); }
static long mount_cgroup(void) { return mount("c", "/mnt", "cgroup", 0, "memory"); }
static long umount_proc(void) { return umount2("/proc", MNT_DETACH); }
static long fsopen_tmpfs(void) { return syscall(SYS_fsopen, "tmpfs", 0); }
static long open_tree_root(void) { return syscall(SYS_open_tree, AT_FDCWD, "/", 1); }
static long move_mount_call(void) {
  return syscall(SYS_move_mount, AT_FDCWD, "/proc", AT_FDCWD, "/mnt", 0);
}
static long pivot(void) { return syscall(SYS_pivot_root, "/", "/mnt"); }
static long bpf_call(void) { return syscall(SYS_bpf, 0, NULL, 0); }
static long perf(void) { return syscall(SYS_perf_event_open, NULL, 0, -1, -1, 0); }
static long userfault(void) { return syscall(SYS_userfaultfd, 0); }
static long uring(void) {
  char params[120] = {0};
  return syscall(SYS_io_uring_setup, 1, params);
}
static long keyctl_call(void) { return syscall(SYS_keyctl, 0, KEY_SPEC_SESSION_KEYRING, 1); }
static long add_key_call(void) {
  return syscall(SYS_add_key, "user", "k", "v", 1, KEY_SPEC_SESSION_KEYRING);
}
static long request_key_call(void) { return syscall(SYS_request_key, "user", "k", NULL, 0); }
static long open_handle(void) {
  char handle[16] = {8, 0, 0, 0, 1, 0, 0, 0, 2};
  return syscall(SYS_open_by_handle_at, AT_FDCWD, handle, O_RDONLY);
}
static long swap_on(void) { return syscall(SYS_swapon, "/tmp/x", 0); }
static long kexec(void) { return syscall(SYS_kexec_load, 0, 0, NULL, 0); }
static long init_module_call(void) { return syscall(SYS_init_module, "x", 1, ""); }
static long finit_module_call(void) { return syscall(SYS_finit_module, 0, "", 0); }
static long delete_module_call(void) { return syscall(SYS_delete_module, "x", 0); }
static long reboot_call(void) { return syscall(SYS_reboot, 0, 0, 0, NULL); }
static long quota(void) { return syscall(SYS_quotactl, 0x800002, "/dev/x", 0, NULL); }
static long syslog_call(void) { return syscall(SYS_syslog, 10, NULL, 0); }
static long set_time(void) {
  struct timeval now;
  gettimeofday(&now, NULL);
  return settimeofday(&now, NULL);
}
static long set_clock(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return clock_settime(CLOCK_REALTIME, &now);
}
static long account(void) { return syscall(SYS_acct, "/tmp/acct"); }
static long compare(void) { return syscall(SYS_kcmp, 1, getpid(), 1, 0, 0); }
static long read_init_memory(void) {
  char byte;
  const long local[2] = {(long)&byte, 1};
  const long remote[2] = {0x400000, 1};
  return syscall(SYS_process_vm_readv, 1, local, 1, remote, 1, 0);
}
static long trace_init(void) { return ptrace(PTRACE_SEIZE, 1, NULL, NULL); }
static long open_init_memory(void) { return open("/proc/1/mem", O_RDWR); }
static long take_init_descriptor(void) {
  const int init = (int)syscall(SYS_pidfd_open, 1, 0);
  return init < 0 ? init : syscall(SYS_pidfd_getfd, init, 3, 0);
}
// A subvolume made inside would stand outside the storage limit.
static long make_subvolume(void) {
  struct btrfs_ioctl_vol_args args = {.name = "probe-subvolume"};
  const int folder = open("/tmp", O_RDONLY | O_DIRECTORY);
  return ioctl(folder, BTRFS_IOC_SUBVOL_CREATE, &args);
}
static long make_snapshot(void) {
  const int folder = open("/tmp", O_RDONLY | O_DIRECTORY);
  struct btrfs_ioctl_vol_args_v2 args = {.fd = folder, .name = "probe-snapshot"};
  return ioctl(folder, BTRFS_IOC_SNAP_CREATE_V2, &args);
}
static long packet_socket(void) { return socket(AF_PACKET, SOCK_RAW, 0); }
static long vsock_socket(void) { return socket(AF_VSOCK, SOCK_STREAM, 0); }
static long alg_socket(void) { return socket(AF_ALG, SOCK_SEQPACKET, 0); }
static long netfilter_socket(void) { return socket(AF_NETLINK, SOCK_RAW, 12); }
static long block_device(void) {
  unlink("/tmp/probe-device");
  if (mknod("/tmp/probe-device", S_IFBLK | 0600, makedev(8, 0)) != 0) {
    return -1;
  }
  return open("/tmp/probe-device", O_RDONLY);
}
static long char_device(void) {
  unlink("/tmp/probe-kmsg");
  if (mknod("/tmp/probe-kmsg", S_IFCHR | 0600, makedev(1, 11)) != 0) {
    return -1;
  }
  return open("/tmp/probe-kmsg", O_RDONLY);
}
static long host_name(void) { return sethostname("changed", 7); }
#ifdef __x86_64__
static long via_int80(void) {  // 26 is ptrace in the i386 table, 21 mount
  long result;
  __asm__ volatile("int $0x80" : "=a"(result) : "a"(21), "b"(0), "c"(0), "d"(0) : "memory");
  errno = (int)-result;
  return result < 0 ? -1 : result;
}
static long via_x32(void) { return syscall(0x40000000 + SYS_mount, "none", "/mnt", "tmpfs", 0, 0); }
#endif

static const struct {
  const char* name;
  long (*call)(void);
} kCalls[] = {
    {"unshare_user", new_user_namespace},
    {"unshare_mount", new_mount_namespace},
    {"unshare_net", new_net_namespace},
    {"clone3_user", clone3_user},
    {"setns", setns_of_init},
    {"mount", mount_tmpfs},
    {"remount", remount_root},
    {"mount_cgroup", mount_cgroup},
    {"umount", umount_proc},
    {"fsopen", fsopen_tmpfs},
    {"open_tree", open_tree_root},
    {"move_mount", move_mount_call},
    {"pivot_root", pivot},
    {"bpf", bpf_call},
    {"perf_event_open", perf},
    {"userfaultfd", userfault},
    {"io_uring_setup", uring},
    {"keyctl", keyctl_call},
    {"add_key", add_key_call},
    {"request_key", request_key_call},
    {"open_by_handle_at", open_handle},
    {"swapon", swap_on},
    {"kexec_load", kexec},
    {"init_module", init_module_call},
    {"finit_module", finit_module_call},
    {"delete_module", delete_module_call},
    {"reboot", reboot_call},
    {"quotactl", quota},
    {"syslog", syslog_call},
    {"settimeofday", set_time},
    {"clock_settime", set_clock},
    {"acct", account},
    {"kcmp", compare},
    {"process_vm_readv", read_init_memory},
    {"ptrace_init", trace_init},
    {"open_init_memory", open_init_memory},
    {"pidfd_getfd_init", take_init_descriptor},
    {"btrfs_subvolume", make_subvolume},
    {"btrfs_snapshot", make_snapshot},
    {"af_packet", packet_socket},
    {"af_vsock", vsock_socket},
    {"af_alg", alg_socket},
    {"netlink_netfilter", netfilter_socket},
    {"block_device", block_device},
    {"char_device", char_device},
    {"sethostname", host_name},
#ifdef __x86_64__
    {"int80_mount", via_int80},
    {"x32_mount", via_x32},
#endif
};

static int all_calls(void) {
  for (size_t i = 0; i < sizeof kCalls / sizeof kCalls[0]; ++i) {
    const pid_t pid = fork();
    if (pid == 0) {
      errno = 0;
      const long result = kCalls[i].call();
      _exit(result >= 0 ? 0 : errno);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    report(kCalls[i].name, WIFSIGNALED(status) ? "KILLED" : name_of(WEXITSTATUS(status)));
  }
  return 0;
}

// The classic way out of a chroot; it must end at the sandbox's own root.
static int chroot_out(void) {
  struct stat before;
  struct stat after;
  stat("/", &before);
  mkdir("/tmp/jail", 0700);
  if (chroot("/tmp/jail") != 0) {
    report("chroot", name_of(errno));
    return 0;
  }
  for (int i = 0; i < 64 && chdir("..") == 0; ++i) {
  }
  if (chroot(".") != 0 || stat("/", &after) != 0) {
    report("chroot", name_of(errno));
    return 0;
  }
  const int same = before.st_ino == after.st_ino && before.st_dev == after.st_dev;
  report("chroot", same ? "INSIDE" : "OUTSIDE");
  return 0;
}

static int connect_abstract(const char* name) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  strncpy(address.sun_path + 1, name, sizeof address.sun_path - 2);
  const socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  const int result = connect(fd, (struct sockaddr*)&address, length);
  report("connect", result == 0 ? "OK" : name_of(errno));
  return 0;
}

// "tcp ADDRESS PORT": OK, the errno, or TIMEOUT after a second.
static int connect_tcp(const char* host, const char* port) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
  inet_pton(AF_INET, host, &address.sin_addr);
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  const struct timeval patience = {.tv_sec = 1};
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  const int result = connect(fd, (struct sockaddr*)&address, sizeof address);
  const int blocked = result != 0 && (errno == EINPROGRESS || errno == EAGAIN);
  report("connect", result == 0 ? "OK" : blocked ? "TIMEOUT" : name_of(errno));
  return 0;
}

// Serves one connection after another on all addresses until it is killed.
static int serve_tcp(const char* port) {
  const int yes = 1;
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (bind(fd, (struct sockaddr*)&address, sizeof address) != 0 || listen(fd, 16) != 0) {
    report("bind", name_of(errno));
    return 1;
  }
  report("bind", "OK");
  if (fork() != 0) {
    return 0;
  }
  setsid();
  close(1);
  for (;;) {
    close(accept(fd, NULL, NULL));
  }
}

static int abstract_listener(const char* name) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  strncpy(address.sun_path + 1, name, sizeof address.sun_path - 2);
  const socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  return bind(fd, (struct sockaddr*)&address, length) == 0 && listen(fd, 16) == 0 ? fd : -1;
}

// A pair of sockets that hold each other (and `fd`) in flight: only the kernel's collector frees
// it.
static int sockets_in_flight(int fd) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) != 0) {
    return -1;
  }
  int sent[] = {pair[0], pair[1], fd};
  char control[CMSG_SPACE(sizeof sent)] = {0};
  struct iovec part = {.iov_base = "x", .iov_len = 1};
  struct msghdr message = {
      .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
  struct cmsghdr* head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(sizeof sent);
  memcpy(CMSG_DATA(head), sent, sizeof sent);
  return sendmsg(pair[0], &message, 0) == 1 ? 0 : -1;
}

static int flow_label(void) {
  struct in6_flowlabel_req request = {.flr_label = htonl(0x12345),
                                      .flr_action = IPV6_FL_A_GET,
                                      .flr_share = IPV6_FL_S_USER,
                                      .flr_flags = IPV6_FL_F_CREATE,
                                      .flr_expires = 60,
                                      .flr_linger = 60};
  request.flr_dst.s6_addr[15] = 1;
  const int fd = socket(AF_INET6, SOCK_DGRAM, 0);
  return setsockopt(fd, SOL_IPV6, IPV6_FLOWLABEL_MGR, &request, sizeof request);
}

static int talk_on_loopback(int type) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(7007)};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int server = socket(AF_INET, type, 0);
  const int client = socket(AF_INET, type, 0);
  if (bind(server, (struct sockaddr*)&address, sizeof address) != 0 ||
      (type == SOCK_STREAM && listen(server, 16) != 0) ||
      connect(client, (struct sockaddr*)&address, sizeof address) != 0) {
    return -1;
  }
  return send(client, "left", 4, 0) == 4 ? 0 : -1;
}

// Leaves something of one kind in the network namespace, as far as it can be left, and ends.
static int leave(const char* kind) {
  int result = -1;
  if (strcmp(kind, "tcp") == 0) {
    result = talk_on_loopback(SOCK_STREAM);
  } else if (strcmp(kind, "udp") == 0) {
    result = talk_on_loopback(SOCK_DGRAM);
  } else if (strcmp(kind, "unused_socket") == 0) {
    result = socket(AF_INET, SOCK_DGRAM, 0);
  } else if (strcmp(kind, "ipv6") == 0) {
    result = socket(AF_INET6, SOCK_STREAM, 0);
  } else if (strcmp(kind, "ping") == 0) {
    result = socket(AF_INET, SOCK_DGRAM, IPPROTO_ICMP);
  } else if (strcmp(kind, "multicast") == 0) {
    struct ip_mreq group = {.imr_multiaddr.s_addr = inet_addr("239.1.2.3")};
    result = setsockopt(socket(AF_INET, SOCK_DGRAM, 0), IPPROTO_IP, IP_ADD_MEMBERSHIP, &group,
                        sizeof group);
  } else if (strcmp(kind, "flow_label") == 0) {
    result = flow_label();
  } else if (strcmp(kind, "abstract") == 0) {
    result = abstract_listener("left-behind");
  } else if (strcmp(kind, "in_flight") == 0) {
    result = sockets_in_flight(abstract_listener("left-in-flight"));
  } else if (strcmp(kind, "netlink") == 0) {
    result = socket(AF_NETLINK, SOCK_RAW, 0);
  }
  report("leave", result >= 0 ? "OK" : name_of(errno));
  return 0;
}

int main(int argc, char** argv) {
  if (argc == 2 && strcmp(argv[1], "calls") == 0) {
    return all_calls();
  }
  if (argc == 2 && strcmp(argv[1], "chroot") == 0) {
    return chroot_out();
  }
  if (argc == 3 && strcmp(argv[1], "abstract") == 0) {
    return connect_abstract(argv[2]);
  }
  if (argc == 4 && strcmp(argv[1], "tcp") == 0) {
    return connect_tcp(argv[2], argv[3]);
  }
  if (argc == 3 && strcmp(argv[1], "serve") == 0) {
    return serve_tcp(argv[2]);
  }
  if (argc == 3 && strcmp(argv[1], "leave") == 0) {
    return leave(argv[2]);
  }
  fprintf(stderr,
          "usage: probe calls|chroot|abstract NAME|tcp ADDRESS PORT|serve PORT|leave KIND\n");
  return 2;
}
