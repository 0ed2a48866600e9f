#include "node/storage.h"

#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/btrfs.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>

#include "base/sys.h"
#include "node/storage_pool.h"

namespace node {
namespace {

using base::cat;

constexpr int64_t kPoolMb = 256;

// How many bytes fit into a file until the first error, and that error. At most `bytes_max`.
struct Filled {
  int64_t bytes = 0;
  int error = 0;
};
Filled fill(const std::string& path, int64_t bytes_max) {
  const base::Fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  const std::string block(size_t{256} * 1024, 'x');
  Filled filled;
  while (filled.bytes < bytes_max) {
    const auto count = ::write(file.get(), block.data(), block.size());
    if (count <= 0) {
      filled.error = errno;
      return filled;
    }
    filled.bytes += count;
  }
  if (::fsync(file.get()) != 0) {
    filled.error = errno;
  }
  return filled;
}

std::string mountinfo() { return *base::sys::read_file("/proc/self/mountinfo", 1 << 24); }

bool has_loop_device(const std::string& image) {
  for (const auto& device : *base::sys::list_folder("/sys/block")) {
    const auto backing =
        base::sys::read_file(cat("/sys/block/", device, "/loop/backing_file"), 8192);
    if (backing && backing->starts_with(image)) {
      return true;
    }
  }
  return false;
}

class RealStorage : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) {
      GTEST_SKIP() << "needs root";
    }
    char name[] = "/tmp/storage-test-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    folder_ = name;
    open();
  }
  void TearDown() override {
    if (storage_) {
      const auto names = storage_->list();
      EXPECT_TRUE(names.has_value());
      for (const auto& area : *names) {
        EXPECT_TRUE(storage_->remove(area).has_value());
      }
      const auto closed = storage_->close();
      EXPECT_TRUE(closed.has_value()) << closed.error().message;
    }
    if (!folder_.empty()) {
      EXPECT_FALSE(mountinfo().contains(folder_));
      // Another process' copy of the mount (a sandbox being made beside this) holds it a moment.
      const auto late = std::chrono::steady_clock::now() + std::chrono::seconds(10);
      while (has_loop_device(image()) && std::chrono::steady_clock::now() < late) {
        ::sched_yield();
      }
      EXPECT_FALSE(has_loop_device(image()));
      EXPECT_TRUE(base::sys::remove_tree(folder_).has_value());
    }
  }

  void open() {
    storage_.reset();
    auto storage = Storage::open({.lib_folder = folder_, .pool_mb = kPoolMb, .driver = GetParam()});
    ASSERT_TRUE(storage.has_value()) << storage.error().message;
    storage_ = std::move(*storage);
  }
  [[nodiscard]] std::string image() const { return folder_ + "/storage.img"; }

  std::string folder_;
  std::unique_ptr<Storage> storage_;
};

TEST_P(RealStorage, an_area_holds_its_parts_and_is_listed) {
  const auto area = storage_->make("sbx-a", 64);
  ASSERT_TRUE(area.has_value()) << area.error().message;
  EXPECT_EQ(*area, storage_->folder("sbx-a"));
  for (const auto* part : kAreaParts) {
    struct stat status{};
    ASSERT_EQ(::stat(cat(*area, '/', part).c_str(), &status), 0) << part;
    EXPECT_TRUE(S_ISDIR(status.st_mode));
    EXPECT_EQ(status.st_uid, 0U);
  }
  EXPECT_EQ(storage_->list().value(), std::vector<std::string>{"sbx-a"});
  EXPECT_EQ(storage_->driver(), GetParam());
  EXPECT_GT(storage_->capacity_mb(), 0);
}

TEST_P(RealStorage, a_write_past_the_limit_fails_and_the_next_area_is_untouched) {
  const auto full = storage_->make("full", 16).value();
  const auto other = storage_->make("other", 16).value();
  const auto filled = fill(full + "/upper/file", 64 << 20);
  EXPECT_TRUE(filled.error == EDQUOT || filled.error == ENOSPC) << filled.error;
  EXPECT_LE(filled.bytes, 16 << 20);
  EXPECT_GE(filled.bytes, 8 << 20);
  EXPECT_EQ(fill(other + "/upper/file", 4 << 20).error, 0);
}

TEST_P(RealStorage, what_an_area_uses_is_counted) {
  const auto area = storage_->make("a", 64).value();
  (void)storage_->make("b", 64).value();
  const auto before = storage_->used_bytes("a");
  ASSERT_TRUE(before.has_value()) << before.error().message;
  ASSERT_EQ(fill(area + "/upper/file", 24 << 20).error, 0);
  const base::Fd folder(::open(area.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  ASSERT_EQ(::syncfs(folder.get()), 0);
  const int64_t grown = storage_->used_bytes("a").value() - *before;
  EXPECT_GE(grown, 23 << 20);
  EXPECT_LE(grown, 26 << 20);
  EXPECT_LE(storage_->used_bytes("b").value(), 1 << 20);
  EXPECT_FALSE(storage_->used_bytes("absent").has_value());
}

TEST_P(RealStorage, spooled_output_counts_in_the_same_limit) {
  const auto area = storage_->make("a", 16).value();
  const auto first = fill(area + "/upper/file", 12 << 20);
  EXPECT_EQ(first.error, 0);
  EXPECT_NE(fill(area + "/spool/output", 12 << 20).error, 0);
}

TEST_P(RealStorage, a_limit_can_be_set_and_raised_after_an_area_was_made) {
  const auto area = storage_->make("ahead", 0).value();
  ASSERT_TRUE(storage_->set_limit("ahead", 8).has_value());
  EXPECT_NE(fill(area + "/upper/file", 32 << 20).error, 0);
  ASSERT_TRUE(storage_->set_limit("ahead", 64).has_value());
  EXPECT_EQ(fill(area + "/upper/more", 16 << 20).error, 0);
}

TEST_P(RealStorage, a_renamed_area_keeps_content_and_limit) {
  (void)storage_->make("spare-1", 0).value();
  const base::Fd upper(::open((storage_->folder("spare-1") + "/upper").c_str(), O_RDONLY));
  ASSERT_TRUE(storage_->set_limit("spare-1", 16).has_value());
  ASSERT_TRUE(storage_->rename("spare-1", "sbx-b").has_value());
  EXPECT_EQ(storage_->list().value(), std::vector<std::string>{"sbx-b"});
  EXPECT_EQ(::faccessat(upper.get(), ".", F_OK, 0), 0);
  EXPECT_NE(fill(storage_->folder("sbx-b") + "/upper/file", 64 << 20).error, 0);
}

TEST_P(RealStorage, rename_never_replaces_another_area) {
  (void)storage_->make("a", 16).value();
  (void)storage_->make("b", 16).value();
  EXPECT_FALSE(storage_->rename("a", "b").has_value());
  EXPECT_EQ(storage_->list().value().size(), 2U);
}

TEST_P(RealStorage, removing_is_idempotent_and_takes_the_content_along) {
  const auto area = storage_->make("a", 16).value();
  ASSERT_EQ(fill(area + "/upper/file", 1 << 20).error, 0);
  EXPECT_TRUE(storage_->remove("a").has_value());
  EXPECT_TRUE(storage_->remove("a").has_value());
  EXPECT_TRUE(storage_->list().value().empty());
  EXPECT_TRUE(storage_->make("a", 16).has_value());
}

TEST_P(RealStorage, areas_are_still_there_after_the_node_came_back) {
  const auto area = storage_->make("a", 16).value();
  ASSERT_EQ(fill(area + "/upper/file", 1 << 20).error, 0);
  open();
  EXPECT_EQ(storage_->list().value(), std::vector<std::string>{"a"});
  EXPECT_EQ(::access((area + "/upper/file").c_str(), F_OK), 0);
  EXPECT_NE(fill(area + "/upper/more", 64 << 20).error, 0);
}

TEST_P(RealStorage, names_that_leave_the_pool_are_refused) {
  for (const auto* name : {"", "..", ".", "a/b", "../x", ".hidden"}) {
    EXPECT_FALSE(storage_->make(name, 16).has_value()) << name;
  }
  EXPECT_TRUE(storage_->list().value().empty());
}

INSTANTIATE_TEST_SUITE_P(Drivers, RealStorage, testing::Values("btrfs-loop", "tmpfs"),
                         [](const auto& driver) {
                           return std::string(driver.param) == "tmpfs" ? "tmpfs" : "btrfs_loop";
                         });

class LoopStorage : public RealStorage {};
INSTANTIATE_TEST_SUITE_P(Loop, LoopStorage, testing::Values("btrfs-loop"));

TEST_P(LoopStorage, an_unmounted_pool_is_attached_again_with_its_areas) {
  ASSERT_EQ(fill(storage_->make("a", 16).value() + "/upper/file", 1 << 20).error, 0);
  ASSERT_TRUE(storage_->close().has_value());
  EXPECT_FALSE(has_loop_device(image()));
  open();
  EXPECT_EQ(storage_->list().value(), std::vector<std::string>{"a"});
  EXPECT_NE(fill(storage_->folder("a") + "/upper/more", 64 << 20).error, 0);
}

TEST_P(LoopStorage, an_interrupted_mkfs_is_made_again) {
  ASSERT_TRUE(storage_->close().has_value());
  ASSERT_EQ(::unlink(image().c_str()), 0);
  ASSERT_TRUE(base::sys::replace_file(image() + ".unfinished", "half", 0600).has_value());
  open();
  EXPECT_TRUE(storage_->make("a", 16).has_value());
  EXPECT_NE(::access((image() + ".unfinished").c_str(), F_OK), 0);
}

TEST_P(LoopStorage, the_image_is_allocated_whole_and_stays_so) {
  ASSERT_EQ(fill(storage_->make("a", 64).value() + "/upper/file", 32 << 20).error, 0);
  ASSERT_TRUE(storage_->remove("a").has_value());
  ASSERT_TRUE(storage_->close().has_value());
  struct stat status{};
  ASSERT_EQ(::stat(image().c_str(), &status), 0);
  EXPECT_GE(status.st_blocks * 512, kPoolMb << 20);
  open();
}

TEST_P(LoopStorage, an_area_with_a_subvolume_inside_is_removed) {
  const auto area = storage_->make("a", 16).value();
  const base::Fd upper(::open((area + "/upper").c_str(), O_RDONLY));
  btrfs_ioctl_vol_args arguments{};
  std::snprintf(arguments.name, sizeof arguments.name, "inner");
  ASSERT_EQ(::ioctl(upper.get(), BTRFS_IOC_SUBVOL_CREATE, &arguments), 0);
  ASSERT_EQ(fill(area + "/upper/inner/file", 1 << 20).error, 0);
  const auto removed = storage_->remove("a");
  EXPECT_TRUE(removed.has_value()) << removed.error().message;
  EXPECT_TRUE(storage_->list().value().empty());
}

TEST_P(LoopStorage, the_cost_of_each_call_is_reported) {
  constexpr int kRounds = 100;
  using std::chrono::steady_clock;
  const auto each = [](steady_clock::time_point since) {
    return std::chrono::duration_cast<std::chrono::microseconds>(steady_clock::now() - since)
               .count() /
           kRounds;
  };
  auto since = steady_clock::now();
  for (int i = 0; i < kRounds; ++i) {
    ASSERT_TRUE(storage_->make(cat("a", i), 0).has_value());
  }
  RecordProperty("make_us", cat(each(since)));
  std::printf("storage: make %lld", static_cast<long long>(each(since)));
  since = steady_clock::now();
  for (int i = 0; i < kRounds; ++i) {
    ASSERT_TRUE(storage_->rename(cat("a", i), cat("b", i)).has_value());
  }
  std::printf(", rename %lld", static_cast<long long>(each(since)));
  since = steady_clock::now();
  for (int i = 0; i < kRounds; ++i) {
    ASSERT_TRUE(storage_->set_limit(cat("b", i), 100).has_value());
  }
  std::printf(", set_limit %lld", static_cast<long long>(each(since)));
  since = steady_clock::now();
  for (int i = 0; i < kRounds; ++i) {
    ASSERT_TRUE(storage_->remove(cat("b", i)).has_value());
  }
  std::printf(", remove %lld us each\n", static_cast<long long>(each(since)));
}

TEST(Storage, default_pool_is_a_quarter_of_the_free_disk_within_bounds) {
  EXPECT_EQ(default_pool_mb(1'000), 4'096);
  EXPECT_EQ(default_pool_mb(80'000), 20'000);
  EXPECT_EQ(default_pool_mb(10'000'000), 65'536);
}

TEST(Storage, an_unknown_driver_is_refused) {
  const auto storage = Storage::open({.lib_folder = "/tmp", .pool_mb = 256, .driver = "zfs"});
  ASSERT_FALSE(storage.has_value());
  EXPECT_EQ(storage.error().code, base::ErrorCode::invalid_field);
}

TEST(Storage, project_quota_is_refused_where_it_is_not_enforced) {
  char name[] = "/dev/shm/storage-test-XXXXXX";
  ASSERT_NE(::mkdtemp(name), nullptr);
  const auto storage = Storage::open({.lib_folder = name, .pool_mb = 0, .driver = "project-quota"});
  ASSERT_FALSE(storage.has_value());
  EXPECT_EQ(storage.error().code, base::ErrorCode::unavailable);
  EXPECT_TRUE(base::sys::remove_tree(name).has_value());
}

TEST(Storage, a_mount_is_found_only_at_its_exact_place) {
  constexpr auto kText =
      "27 1 254:0 / / rw - ext4 /dev/vda rw\n36 27 0:9 / /x/pool rw - btrfs l rw\n";
  EXPECT_TRUE(is_mounted(kText, "/x/pool"));
  EXPECT_FALSE(is_mounted(kText, "/x/poo"));
  EXPECT_FALSE(is_mounted(kText, "/x"));
}

}  // namespace
}  // namespace node
