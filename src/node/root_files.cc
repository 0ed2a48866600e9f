#include "node/root_files.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <optional>

#include "base/fd.h"
#include "base/sys.h"
#include "node/resolv.h"

namespace node {
namespace {

using base::Fd;
using base::Result;

constexpr mode_t kFileMode = 0644;
constexpr mode_t kFolderMode = 0755;
constexpr mode_t kModeBits = 07777;
constexpr size_t kResolvBytesMax = 4096;  // what sandbox_resolv_conf() makes is shorter

std::string hosts_text(const RootFiles& files) {
  std::string text = base::cat("127.0.0.1\tlocalhost\n", files.address, "\t", files.hostname, "\n");
  for (const auto& [name, address] : files.hosts) {
    if (name != files.hostname) {
      text += base::cat(address, "\t", name, "\n");
    }
  }
  return text;
}

Result<void> write_new(int area, const char* path, std::string_view text, uint32_t owner) {
  ASSIGN_OR_RETURN(const Fd file,
                   base::sys::open_at(area, path, O_WRONLY | O_CREAT | O_EXCL, kFileMode));
  if (::fchown(file.get(), owner, owner) != 0 || ::fchmod(file.get(), kFileMode) != 0) {
    return base::fail_errno(errno, "give ", path, " to the sandbox");
  }
  return base::with_context(base::sys::write_all(file.get(), text), path);
}

Result<void> write_prepared(int area, const char* path, std::string_view text) {
  ASSIGN_OR_RETURN(const Fd file, base::sys::open_at(area, path, O_WRONLY | O_NOFOLLOW));
  return base::with_context(base::sys::write_all(file.get(), text), path);
}

// Gives `path` in the area mode and owner of the image's.
Result<void> take_after(int area, const char* path, const struct stat& image, uint32_t owner) {
  const mode_t mode = image.st_mode & kModeBits;
  if (image.st_uid != owner || image.st_gid != owner) {
    if (::fchownat(area, path, image.st_uid, image.st_gid, AT_SYMLINK_NOFOLLOW) != 0) {
      return base::fail_errno(errno, "chown ", path);
    }
  }
  if (mode != kFolderMode && ::fchmodat(area, path, mode, 0) != 0) {
    return base::fail_errno(errno, "chmod ", path);
  }
  return {};
}

// The uppermost layer's entry of that name.
std::optional<struct stat> find_in_layers(const int* lower, size_t count, const char* name) {
  for (size_t i = 0; i < count; ++i) {
    struct stat status{};
    if (::fstatat(lower[i], name, &status, AT_SYMLINK_NOFOLLOW) == 0) {
      return status;
    }
  }
  return std::nullopt;
}

}  // namespace

Result<void> prepare_root_files(int area, uint32_t owner) {
  if (::mkdirat(area, "upper/etc", kFolderMode) != 0 ||
      ::fchownat(area, "upper/etc", owner, owner, AT_SYMLINK_NOFOLLOW) != 0) {
    return base::fail_errno(errno, "make upper/etc");
  }
  RETURN_IF_ERROR(write_new(area, "upper/etc/resolv.conf", read_resolv_conf(), owner));
  RETURN_IF_ERROR(write_new(area, "upper/etc/hosts", "", owner));
  return write_new(area, "upper/etc/hostname", "", owner);
}

Result<void> ensure_name_server(int area) {
  ASSIGN_OR_RETURN(const Fd file, base::sys::open_at(area, "upper/etc/resolv.conf",
                                                     O_RDWR | O_APPEND | O_NOFOLLOW));
  ASSIGN_OR_RETURN(const std::string text, base::sys::read_all(file.get(), kResolvBytesMax));
  if (text.starts_with("nameserver") || text.contains("\nnameserver")) {
    return {};
  }
  return base::sys::write_all(file.get(), "nameserver 169.254.1.1\n");
}

Result<EtcState> finish_root_files(int area, const int* lower, size_t lower_count,
                                   const RootFiles& files) {
  struct stat root{};
  if (::fstat(lower[0], &root) != 0) {
    return base::fail_errno(errno, "stat the top layer");
  }
  RETURN_IF_ERROR(take_after(area, "upper", root, files.owner));
  const auto etc = find_in_layers(lower, lower_count, "etc");
  // A character device is a deletion mark: the image has none.
  if (etc && !S_ISDIR(etc->st_mode) && !S_ISCHR(etc->st_mode)) {
    for (const char* name : {"upper/etc/resolv.conf", "upper/etc/hosts", "upper/etc/hostname"}) {
      ::unlinkat(area, name, 0);
    }
    if (::unlinkat(area, "upper/etc", AT_REMOVEDIR) != 0) {
      return base::fail_errno(errno, "remove upper/etc");
    }
    return EtcState::unusual;
  }
  if (etc && S_ISDIR(etc->st_mode)) {
    RETURN_IF_ERROR(take_after(area, "upper/etc", *etc, files.owner));
  }
  RETURN_IF_ERROR(write_prepared(area, "upper/etc/hosts", hosts_text(files)));
  RETURN_IF_ERROR(write_prepared(area, "upper/etc/hostname", files.hostname + "\n"));
  return EtcState::in_upper;
}

void write_root_files(int root, const RootFiles& files) {
  const std::array<std::pair<const char*, std::string>, 3> texts{
      {{"etc/resolv.conf", read_resolv_conf()},
       {"etc/hosts", hosts_text(files)},
       {"etc/hostname", files.hostname + "\n"}}};
  for (const auto& [path, text] : texts) {
    const auto file = base::sys::open_in_root(root, path, O_WRONLY | O_CREAT | O_TRUNC, kFileMode);
    if (file && ::fchown(file->get(), files.owner, files.owner) == 0) {
      [[maybe_unused]] const auto written = base::sys::write_all(file->get(), text);
    }
  }
}

}  // namespace node
