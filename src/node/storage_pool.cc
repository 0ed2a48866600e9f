#include "node/storage_pool.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "base/fd.h"
#include "base/sys.h"
#include "node/program.h"

namespace node {

using base::cat;
using base::ErrorCode;
using base::fail;
using base::fail_errno;
using base::Fd;
using base::Result;

namespace {

constexpr int64_t kBytesPerMb = 1 << 20;
// Smaller ones mkfs.btrfs makes only in its mixed mode, which has no use here.
constexpr int64_t kPoolMbMin = 160;
// Another process may take the number that LOOP_CTL_GET_FREE gave: then the next one.
constexpr int kLoopTriesMax = 64;
constexpr size_t kMountinfoBytesMax = 16 << 20;
constexpr size_t kPathBytesMax = 8192;

Result<void> allocate(const std::string& path, int64_t size_mb) {
  ASSIGN_OR_RETURN(const auto file, base::sys::open(path, O_RDWR | O_CREAT | O_TRUNC, 0600));
  if (::fallocate(file.get(), 0, 0, size_mb * kBytesPerMb) != 0) {
    if (errno == ENOSPC) {
      return fail(ErrorCode::disk_full, "no room for a storage pool of ", size_mb, " MB");
    }
    return fail_errno(errno, "allocate ", path);
  }
  return {};
}

Result<void> flush(const std::string& path) {
  ASSIGN_OR_RETURN(const auto file, base::sys::open(path, O_RDONLY));
  return ::fsync(file.get()) == 0 ? Result<void>{} : fail_errno(errno, "fsync ", path);
}

// Under another name until it is whole: an interrupted one is simply made again.
Result<void> make_image(const std::string& image, int64_t size_mb) {
  if (size_mb < kPoolMbMin) {
    return base::fail_field("storage_pool_mb", "a pool has at least ", kPoolMbMin, " MB");
  }
  const auto unfinished = cat(image, ".unfinished");
  auto made = allocate(unfinished, size_mb);
  if (made) {
    // One copy of everything: what is beneath is one disk anyway. -K: no discard. Nodes of half the
    // usual size: small files are made a tenth faster; with a quarter a link's target would no
    // longer have PATH_MAX bytes.
    const auto run = run_program(
        {"mkfs.btrfs", "-q", "-f", "-K", "-n", "8192", "-m", "single", "-d", "single", unfinished});
    if (!run) {
      made = std::unexpected(run.error());
    }
  }
  if (made) {
    made = flush(unfinished);
  }
  if (made && ::rename(unfinished.c_str(), image.c_str()) != 0) {
    made = fail_errno(errno, "rename ", unfinished);
  }
  if (!made) {
    ::unlink(unfinished.c_str());
  }
  return made;
}

// The device that already has this file, as after a crash of something that attached it by hand:
// the same file system behind two devices would be refused, or worse.
Result<Fd> find_attached(const std::string& image) {
  std::string absolute(kPathBytesMax, '\0');
  if (::realpath(image.c_str(), absolute.data()) == nullptr) {
    return fail_errno(errno, "resolve ", image);
  }
  absolute.resize(::strlen(absolute.c_str()));
  ASSIGN_OR_RETURN(const auto devices, base::sys::list_folder("/sys/block"));
  for (const auto& device : devices) {
    if (!device.starts_with("loop")) {
      continue;
    }
    const auto backing =
        base::sys::read_file(cat("/sys/block/", device, "/loop/backing_file"), kPathBytesMax);
    if (backing && base::trim(base::split(*backing, '\n').front()) == absolute) {
      return base::sys::open(cat("/dev/", device), O_RDWR);
    }
  }
  return Fd();
}

Result<void> configure(const Fd& device, const Fd& file, uint32_t flags) {
  loop_config config{};
  config.fd = static_cast<uint32_t>(file.get());
  config.info.lo_flags = flags;
  if (::ioctl(device.get(), LOOP_CONFIGURE, &config) != 0) {
    return fail_errno(errno, "attach a loop device");
  }
  return {};
}

struct Attached {
  Fd device;
  std::string path;
};

Result<std::string> device_path(const Fd& device) {
  struct stat status{};
  if (::fstat(device.get(), &status) != 0) {
    return fail_errno(errno, "stat a loop device");
  }
  loop_info64 info{};
  if (::ioctl(device.get(), LOOP_GET_STATUS64, &info) != 0) {
    return fail_errno(errno, "ask a loop device");
  }
  return cat("/dev/loop", info.lo_number);
}

// A device number may be new: where nothing like udev makes the node, we do.
Result<Fd> open_device(int number) {
  const auto path = cat("/dev/loop", number);
  auto device = base::sys::open(path, O_RDWR);
  if (!device && device.error().errno_value == ENOENT) {
    constexpr unsigned kLoopMajor = 7;
    (void)::mknod(path.c_str(), S_IFBLK | 0600,
                  (dev_t{kLoopMajor} << 8) | static_cast<dev_t>(number));
    device = base::sys::open(path, O_RDWR);
  }
  return device;
}

Result<Attached> attach(const std::string& image) {
  ASSIGN_OR_RETURN(auto existing, find_attached(image));
  if (existing) {
    ASSIGN_OR_RETURN(auto path, device_path(existing));
    return Attached{.device = std::move(existing), .path = std::move(path)};
  }
  ASSIGN_OR_RETURN(const auto file, base::sys::open(image, O_RDWR));
  ASSIGN_OR_RETURN(const auto control, base::sys::open("/dev/loop-control", O_RDWR));
  for (int tries = 0; tries < kLoopTriesMax; ++tries) {
    const int number = ::ioctl(control.get(), LOOP_CTL_GET_FREE);
    if (number < 0) {
      return fail_errno(errno, "find a free loop device");
    }
    ASSIGN_OR_RETURN(auto device, open_device(number));
    // Direct I/O keeps file contents from being cached twice, where the host's disk can do it.
    auto done = configure(device, file, LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO);
    if (!done && done.error().errno_value == EINVAL) {
      done = configure(device, file, LO_FLAGS_AUTOCLEAR);
    }
    if (done) {
      return Attached{.device = std::move(device), .path = cat("/dev/loop", number)};
    }
    if (done.error().errno_value != EBUSY) {
      return std::unexpected(std::move(done).error());
    }
  }
  return fail(ErrorCode::unavailable, "no free loop device");
}

}  // namespace

bool is_mounted(std::string_view mountinfo, std::string_view folder) {
  return std::ranges::any_of(base::split(mountinfo, '\n'), [&](std::string_view line) {
    const auto fields = base::split(line, ' ');
    return fields.size() > 4 && fields[4] == folder;
  });
}

Result<void> mount_pool(const std::string& image, const std::string& folder, int64_t size_mb) {
  ASSIGN_OR_RETURN(const auto mountinfo,
                   base::sys::read_file("/proc/self/mountinfo", kMountinfoBytesMax));
  if (is_mounted(mountinfo, folder)) {
    return {};
  }
  RETURN_IF_ERROR(base::sys::make_folder(folder, 0700));
  if (::access(image.c_str(), F_OK) != 0) {
    RETURN_IF_ERROR(make_image(image, size_mb));
  }
  ASSIGN_OR_RETURN(const auto attached, attach(image));
  // The limits are what keeps order here, so no set-id file and no device node counts in it.
  // nodatasum: contents are as safe as in the file beneath, and checksums of their own would double
  // both the processor time of writing them back and the room that each file not yet written back
  // keeps reserved; the less of that there is, the sooner btrfs slows down who makes small files.
  if (::mount(attached.path.c_str(), folder.c_str(), "btrfs", MS_NOATIME | MS_NOSUID | MS_NODEV,
              "nodiscard,nodatasum") != 0) {
    return fail_errno(errno, "mount the storage pool ", image);
  }
  return {};
}

Result<void> unmount_pool(const std::string& folder) {
  if (::umount2(folder.c_str(), UMOUNT_NOFOLLOW) != 0 && errno != EINVAL && errno != ENOENT) {
    return fail_errno(errno, "unmount ", folder);
  }
  return {};
}

}  // namespace node
