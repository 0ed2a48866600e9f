#include "node/doctor.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>

namespace node {
namespace {

// A host with nothing to complain about.
HostFacts good_host() {
  return {.kernel_release = "6.12.9-1-generic",
          .user_namespaces = true,
          .cgroup_layout = "v2",
          .overlay = true,
          .btrfs = true,
          .mkfs_btrfs = true,
          .nft = true,
          .ip_forward = true,
          .inotify_instances = 8192,
          .neighbour_threshold = 1024,
          .pty_max = 4096,
          .pid_max = 4194304,
          .open_files_max = 1048576};
}

Check check(const HostFacts& facts, std::string_view name) {
  const auto checks = judge(facts);
  const auto found = std::ranges::find(checks, name, &Check::name);
  EXPECT_NE(found, checks.end()) << name;
  return found == checks.end() ? Check{} : *found;
}

TEST(Doctor, finds_nothing_on_a_good_host) {
  for (const auto& one : judge(good_host())) {
    EXPECT_TRUE(one.ok) << one.name << ": " << one.message;
    EXPECT_TRUE(one.mend.empty()) << one.name;
  }
}

TEST(Doctor, names_a_command_for_everything_that_is_low) {
  auto host = good_host();
  host.inotify_instances = 128;
  host.pid_max = 32768;
  host.pty_max = 100;
  host.neighbour_threshold = 10;
  host.open_files_max = 1024;
  for (const auto* name :
       {"inotify instances", "process ids", "terminals", "neighbour table", "open files"}) {
    const auto found = check(host, name);
    EXPECT_FALSE(found.ok) << name;
    EXPECT_FALSE(found.fatal) << name;
    EXPECT_FALSE(found.mend.empty()) << name;
  }
  EXPECT_TRUE(check(host, "inotify instances").mend.contains("fs.inotify.max_user_instances"));
}

TEST(Doctor, tells_what_makes_sandboxes_impossible) {
  auto host = good_host();
  host.kernel_release = "5.15.0-100-generic";
  host.user_namespaces = false;
  host.missing_namespaces = {"net", "pid"};
  host.cgroup_problem = "no cgroup controller memory";
  host.overlay = false;
  host.id_mapped_problem = "id-map the mount of /var/lib: Invalid argument";
  host.nft = false;
  for (const auto* name : {"kernel", "user namespaces", "namespaces", "cgroups", "overlay",
                           "id-mapped mounts", "nft"}) {
    EXPECT_TRUE(check(host, name).fatal) << name;
    EXPECT_FALSE(check(host, name).ok) << name;
  }
  EXPECT_TRUE(check(host, "namespaces").message.contains("net, pid"));
}

TEST(Doctor, a_forward_policy_of_drop_is_named) {
  auto host = good_host();
  host.iptables_forward_drop = true;
  EXPECT_FALSE(check(host, "forward policy").ok);
  EXPECT_TRUE(check(host, "forward policy").mend.contains("iptables"));
}

TEST(Doctor, storage_without_btrfs_is_lacking_but_possible) {
  auto host = good_host();
  host.mkfs_btrfs = false;
  EXPECT_FALSE(check(host, "storage").ok);
  EXPECT_FALSE(check(host, "storage").fatal);
  host.mkfs_btrfs = true;
  host.kernel_release = "6.1.0-40-amd64";
  EXPECT_TRUE(check(host, "storage").ok);
  EXPECT_TRUE(check(host, "storage").message.contains("classic"));
}

TEST(Doctor, what_could_not_be_read_is_not_ok) {
  auto host = good_host();
  host.pid_max.reset();
  EXPECT_FALSE(check(host, "process ids").ok);
}

TEST(Doctor, kernel_releases_are_compared_as_numbers) {
  EXPECT_EQ(parse_kernel_release("6.18.44-fc-v782"), std::pair(6, 18));
  EXPECT_EQ(parse_kernel_release("6.1.0"), std::pair(6, 1));
  EXPECT_EQ(parse_kernel_release("6.7-rc1"), std::pair(6, 7));
  EXPECT_EQ(parse_kernel_release("x"), std::pair(0, 0));
  EXPECT_EQ(parse_kernel_release(""), std::pair(0, 0));
  EXPECT_LT(parse_kernel_release("5.19.0"), parse_kernel_release("6.1.0"));
}

TEST(Doctor, reads_this_host) {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "needs root";
  }
  for (const auto& one : run_doctor("/nonexistent")) {
    EXPECT_FALSE(one.fatal && !one.ok) << one.name << ": " << one.message;
    EXPECT_FALSE(one.message.empty()) << one.name;
  }
}

}  // namespace
}  // namespace node
