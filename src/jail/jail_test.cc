// The launcher against the real kernel: a busybox shell stands in for the agent and writes what it
// sees into the spool folder. Needs root and a static busybox.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "base/sys.h"
#include "jail/mounts.h"
#include "jail/shell.h"

namespace jail {
namespace {

using base::Fd;

constexpr const char* kBusybox = "/bin/busybox";
constexpr uid_t kOwner = 1'900'000'000;
constexpr int kPatienceMilliseconds = 20'000;
constexpr size_t kOutputBytesMax = size_t{1} << 20;

Fd new_network_namespace() {
  const Fd home(::open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(::unshare(CLONE_NEWNET), 0);
  Fd made(::open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(::setns(home.get(), CLONE_NEWNET), 0);
  return made;
}

class Jail : public testing::Test {
 protected:
  void SetUp() override {
    if (::getuid() != 0 || ::access(kBusybox, X_OK) != 0) {
      GTEST_SKIP() << "needs root and " << kBusybox;
    }
    char name[] = "/tmp/jail-test-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    folder_ = name;
    for (const char* path :
         {"/layer/bin", "/layer/etc", "/area/upper", "/area/work", "/area/spool"}) {
      std::filesystem::create_directories(folder_ + path);
    }
    std::filesystem::copy_file(kBusybox, folder_ + "/layer/bin/busybox");
    for (const char* applet :
         {"sh",    "cat",      "ls",       "id",      "mount",  "mknod", "stat",
          "grep",  "hostname", "readlink", "unshare", "chroot", "echo",  "rm",
          "sleep", "dd",       "mkdir",    "touch",   "test",   "head",  "umount"}) {
      std::filesystem::create_symlink("busybox", folder_ + "/layer/bin/" + applet);
    }
    for (const char* path : {"/area/upper", "/area/spool"}) {
      ASSERT_EQ(::chown((folder_ + path).c_str(), kOwner, kOwner), 0);
    }
  }
  void TearDown() override {
    if (!folder_.empty()) {
      EXPECT_TRUE(base::sys::remove_tree(folder_));
    }
  }

  // Starts a shell with `script` as its agent; the outcome of the launch.
  base::Result<Shell::Outcome> launch(const std::string& script, bool no_new_privileges = false) {
    ASSIGN_OR_RETURN(launcher_, make_launcher(kBusybox));
    launcher_.arguments = {"sh", "-c",
                           "export PATH=/bin; exec >/proc/self/fd/7/out 2>&1; " + script};
    const Fd network = new_network_namespace();
    ASSIGN_OR_RETURN(Shell shell, Shell::make(launcher_, {.id_base = kOwner,
                                                          .network_namespace = network.get()}));
    shell_.emplace(std::move(shell));
    ASSIGN_OR_RETURN(const Fd lower,
                     clone_id_mapped(folder_ + "/layer", shell_->user_namespace().get()));
    ASSIGN_OR_RETURN(const Fd area, clone_plain(folder_ + "/area"));
    const int flags = O_RDONLY | O_DIRECTORY;
    ASSIGN_OR_RETURN(const Fd upper, base::sys::open_at(area.get(), "upper", flags));
    ASSIGN_OR_RETURN(const Fd work, base::sys::open_at(area.get(), "work", flags));
    ASSIGN_OR_RETURN(const Fd spool, base::sys::open_at(area.get(), "spool", flags));
    const int lower_fd = lower.get();
    ASSIGN_OR_RETURN(const Fd root, make_overlay({&lower_fd, 1}, upper.get(), work.get()));
    ASSIGN_OR_RETURN(const Fd listen, base::sys::listen_unix(folder_ + "/agent.sock", 0600, 1));
    ASSIGN_OR_RETURN(const Fd config, base::sys::make_sealed_memory("config", "{}"));
    RETURN_IF_ERROR(shell_->start({.hostname = "jailed",
                                   .no_new_privileges = no_new_privileges,
                                   .root = root.get(),
                                   .listen = listen.get(),
                                   .config = config.get(),
                                   .oom_counter = -1,
                                   .spool = spool.get()}));
    for (;;) {
      pollfd wait{.fd = shell_->control().get(), .events = POLLIN, .revents = 0};
      if (::poll(&wait, 1, kPatienceMilliseconds) != 1) {
        return base::fail(base::ErrorCode::deadline_exceeded, "no outcome");
      }
      if (const auto outcome = shell_->outcome()) {
        return *outcome;
      }
    }
  }

  // What the script wrote until it ended.
  std::string run(const std::string& script, bool no_new_privileges = false) {
    const auto outcome = launch(script, no_new_privileges);
    if (!outcome) {
      return "LAUNCH: " + outcome.error().message;
    }
    if (!outcome->executed && outcome->failure.errno_value != ECHILD) {
      return "LAUNCH: " + describe(outcome->failure);
    }
    pollfd wait{.fd = shell_->process().get(), .events = POLLIN, .revents = 0};
    EXPECT_EQ(::poll(&wait, 1, kPatienceMilliseconds), 1);
    const auto text = base::sys::read_file(folder_ + "/area/spool/out", kOutputBytesMax);
    return text ? *text : "OUTPUT: " + text.error().message;
  }

  std::string folder_;
  Launcher launcher_;
  std::optional<Shell> shell_;
};

TEST_F(Jail, runs_as_root_of_its_own_ids_and_as_first_process) {
  EXPECT_EQ(run("id -u; echo $$; cat /proc/self/uid_map; hostname"),
            base::cat("0\n1\n         0 1900000000      65536\njailed\n"));
}

TEST_F(Jail, sees_no_mount_of_the_host) {
  const std::string mounts = run("cat /proc/self/mounts");
  EXPECT_EQ(mounts.find(folder_), std::string::npos) << mounts;
  EXPECT_NE(mounts.find("overlay / overlay"), std::string::npos) << mounts;
  EXPECT_EQ(mounts.find("ext4"), std::string::npos) << mounts;
  EXPECT_NE(mounts.find("/dev/pts devpts"), std::string::npos) << mounts;
  EXPECT_NE(mounts.find("/dev/mqueue mqueue"), std::string::npos) << mounts;
}

TEST_F(Jail, sees_no_host_path_in_mountinfo) {
  const std::string mounts = run("cat /proc/self/mountinfo");
  EXPECT_EQ(mounts.find("/tmp/jail-test"), std::string::npos) << mounts;
}

TEST_F(Jail, has_only_the_usual_devices_and_cannot_make_more) {
  EXPECT_EQ(run("ls /dev; echo x >/dev/null && echo null; mknod /tmp/d b 8 0; "
                "mknod /dev/m c 1 1; head -c 4 /dev/zero | grep -c ''"),
            "fd\nfull\nmqueue\nnull\nptmx\npts\nrandom\nshm\nstderr\nstdin\nstdout\ntty\nurandom\n"
            "zero\nnull\nmknod: /tmp/d: No such file or directory\n"
            "mknod: /dev/m: Operation not permitted\n1\n");
}

TEST_F(Jail, keeps_no_more_capabilities_than_a_container_usually_has) {
  const std::string status = run("grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status");
  EXPECT_EQ(status,
            "CapInh:\t0000000000000000\nCapPrm:\t00000000a80425fb\nCapEff:\t00000000a80425fb\n"
            "CapBnd:\t00000000a80425fb\nCapAmb:\t0000000000000000\nNoNewPrivs:\t0\nSeccomp:\t2\n");
}

TEST_F(Jail, sets_no_new_privileges_when_asked) {
  EXPECT_EQ(run("grep NoNewPrivs /proc/self/status", true), "NoNewPrivs:\t1\n");
}

TEST_F(Jail, denies_mounts_and_namespaces) {
  const std::string said =
      run("mount -t tmpfs none /tmp; umount /proc; unshare -U true; unshare -m true; "
          "unshare -n true; mkdir /mnt; mount -o remount,rw /sys; echo done");
  EXPECT_EQ(said.find("LAUNCH"), std::string::npos) << said;
  size_t refusals = 0;
  for (size_t at = said.find("not permitted"); at != std::string::npos;
       at = said.find("not permitted", at + 1)) {
    ++refusals;
  }
  EXPECT_GE(refusals, 4U) << said;
  EXPECT_TRUE(said.ends_with("done\n")) << said;
}

TEST_F(Jail, masks_what_would_tell_of_the_host_or_change_it) {
  const std::string said =
      run("cat /proc/kcore /proc/keys /proc/timer_list /proc/interrupts 2>&1 | head -c 100; "
          "ls /sys/firmware; for f in sys/kernel/core_pattern sysrq-trigger "
          "sys/kernel/modprobe sys/vm/drop_caches; do "
          "echo x >/proc/$f && echo WROTE $f; done; echo x >/sys/kernel/uevent_helper && "
          "echo WROTE; echo end");
  EXPECT_EQ(said.find("WROTE"), std::string::npos) << said;
  EXPECT_NE(said.find("Read-only file system"), std::string::npos) << said;
}

TEST_F(Jail, leaves_the_agent_exactly_its_descriptors) {
  EXPECT_EQ(run("n=0; while test $n -lt 64; do test -e /proc/1/fd/$n && echo $n; "
                "n=$((n + 1)); done"),
            // 10 is the shell's own copy, made by `exec >`.
            "0\n1\n2\n3\n4\n7\n");
}

TEST_F(Jail, cannot_write_the_agents_binary) {
  const std::string said = run("echo x >/proc/1/exe && echo WROTE; echo end");
  EXPECT_EQ(said.find("WROTE"), std::string::npos) << said;
  EXPECT_TRUE(said.ends_with("end\n")) << said;
}

TEST_F(Jail, refuses_an_image_whose_mount_points_are_links) {
  for (const char* name : {"proc", "sys", "dev"}) {
    std::filesystem::create_symlink("../../../../../bin", folder_ + "/layer/" + name);
    const auto outcome = launch("true");
    ASSERT_TRUE(outcome) << outcome.error().message;
    EXPECT_FALSE(outcome->executed);
    EXPECT_EQ(outcome->failure.step, Step::open_mount_target);
    shell_.reset();
    std::filesystem::remove(folder_ + "/layer/" + name);
    std::filesystem::remove_all(std::filesystem::path(folder_) / "area" / "work" / "work");
  }
}

TEST_F(Jail, cannot_make_nested_user_namespaces_whatever_the_call) {
  EXPECT_EQ(run("cat /proc/sys/user/max_user_namespaces; "
                "echo 9 2>/dev/null >/proc/sys/user/max_user_namespaces && echo RAISED"),
            "0\n");
}

TEST_F(Jail, a_mask_does_not_follow_an_images_null_device) {
  std::filesystem::create_directories(folder_ + "/layer/dev");
  std::filesystem::create_symlink("/proc/sys/kernel/core_pattern", folder_ + "/layer/dev/null");
  EXPECT_EQ(run("test -c /dev/null && echo device; cat /proc/keys"), "device\n");
}

TEST_F(Jail, a_shell_ends_with_its_owners_end_of_the_socket) {
  auto launcher = make_launcher(kBusybox);
  ASSERT_TRUE(launcher);
  const Fd network = new_network_namespace();
  auto shell = Shell::make(*launcher, {.id_base = kOwner, .network_namespace = network.get()});
  ASSERT_TRUE(shell) << shell.error().message;
  shell->control().reset();
  pollfd wait{.fd = shell->process().get(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&wait, 1, kPatienceMilliseconds), 1);
}

}  // namespace
}  // namespace jail
