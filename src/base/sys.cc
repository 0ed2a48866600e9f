#include "base/sys.h"

#include <dirent.h>
#include <errno.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>

namespace base::sys {
namespace {

constexpr size_t kFdsPerMessageMax = 16;
constexpr int kTreeDepthMax = 4096;

template <typename Call>
auto retry(Call call) {
  for (;;) {
    const auto result = call();
    if (result != -1 || errno != EINTR) {
      return result;
    }
  }
}

Result<Fd> open_how(int folder, const std::string& path, int flags, mode_t mode, uint64_t resolve) {
  struct open_how how{};
  how.flags = static_cast<uint64_t>(flags | O_CLOEXEC);
  how.mode = mode;
  how.resolve = resolve;
  const auto number = retry([&] {
    return static_cast<int>(::syscall(SYS_openat2, folder, path.c_str(), &how, sizeof how));
  });
  if (number < 0) {
    return fail_errno(errno, "open ", path);
  }
  return Fd(number);
}

// A socket's address holds some 100 bytes of path: a longer one is named by way of its folder, if
// its last part is no longer.
struct UnixAddress {
  sockaddr_un name{};
  Fd folder;
};

Result<UnixAddress> unix_address(const std::string& path) {
  UnixAddress address;
  address.name.sun_family = AF_UNIX;
  std::string shorter = path;
  const size_t slash = path.rfind('/');
  if (path.size() >= sizeof address.name.sun_path && slash != std::string::npos) {
    ASSIGN_OR_RETURN(address.folder,
                     open(slash == 0 ? "/" : path.substr(0, slash), O_PATH | O_DIRECTORY));
    shorter = cat("/proc/self/fd/", address.folder.get(), path.substr(slash));
  }
  if (shorter.size() >= sizeof address.name.sun_path) {
    return fail_errno(ENAMETOOLONG, "socket path ", path);
  }
  std::ranges::copy(shorter, static_cast<char*>(address.name.sun_path));
  return address;
}

const sockaddr* as_sockaddr(const UnixAddress& address) {
  return reinterpret_cast<const sockaddr*>(&address.name);  // NOLINT: the socket API's own way
}

struct CloseFolder {
  void operator()(DIR* folder) const { ::closedir(folder); }
};

Result<void> remove_entries(int folder, dev_t device, int depth);

Result<void> remove_entry(int folder, const char* name, dev_t device, int depth) {
  if (::unlinkat(folder, name, 0) == 0 || errno == ENOENT) {
    return {};
  }
  if (errno != EISDIR && errno != EPERM) {
    return fail_errno(errno, "delete ", name);
  }
  if (depth >= kTreeDepthMax) {
    return fail_errno(ELOOP, "delete ", name);
  }
  Fd child(::openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!child) {
    return fail_errno(errno, "open folder ", name);
  }
  RETURN_IF_ERROR(remove_entries(child.get(), device, depth + 1));
  if (::unlinkat(folder, name, AT_REMOVEDIR) != 0 && errno != ENOENT) {
    return fail_errno(errno, "delete folder ", name);
  }
  return {};
}

Result<void> remove_entries(int folder, dev_t device, int depth) {
  struct stat status{};
  if (::fstat(folder, &status) != 0) {
    return fail_errno(errno, "stat folder");
  }
  if (status.st_dev != device) {
    return fail_errno(EXDEV, "delete across a mount");
  }
  const int copy = ::fcntl(folder, F_DUPFD_CLOEXEC, 0);
  const std::unique_ptr<DIR, CloseFolder> entries(copy < 0 ? nullptr : ::fdopendir(copy));
  if (!entries) {
    return fail_errno(errno, "read folder");
  }
  while (const dirent* entry = ::readdir(entries.get())) {
    const std::string_view name = static_cast<const char*>(entry->d_name);
    if (name != "." && name != "..") {
      RETURN_IF_ERROR(remove_entry(folder, entry->d_name, device, depth));
    }
  }
  return {};
}

}  // namespace

Result<Fd> open(const std::string& path, int flags, mode_t mode) {
  return open_at(AT_FDCWD, path, flags, mode);
}

Result<Fd> open_at(int folder, const std::string& path, int flags, mode_t mode) {
  const int number = retry([&] { return ::openat(folder, path.c_str(), flags | O_CLOEXEC, mode); });
  if (number < 0) {
    return fail_errno(errno, "open ", path);
  }
  return Fd(number);
}

Result<Fd> open_beneath(int folder, const std::string& path, int flags, mode_t mode) {
  return open_how(folder, path, flags, mode,
                  RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
}

Result<Fd> open_in_root(int folder, const std::string& path, int flags, mode_t mode) {
  return open_how(folder, path, flags, mode, RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
}

Result<std::string> read_all(int fd, size_t bytes_max) {
  std::string bytes;
  std::array<char, 16384> buffer;
  for (;;) {
    const ssize_t count = retry([&] { return ::read(fd, buffer.data(), buffer.size()); });
    if (count < 0) {
      return fail_errno(errno, "read");
    }
    if (count == 0) {
      return bytes;
    }
    if (bytes.size() + static_cast<size_t>(count) > bytes_max) {
      return fail(ErrorCode::body_too_large, "more than ", bytes_max, " bytes");
    }
    bytes.append(buffer.data(), static_cast<size_t>(count));
  }
}

Result<std::string> read_file(const std::string& path, size_t bytes_max) {
  ASSIGN_OR_RETURN(const Fd file, open(path, O_RDONLY));
  return with_context(read_all(file.get(), bytes_max), path);
}

Result<void> write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = retry([&] { return ::write(fd, bytes.data(), bytes.size()); });
    if (count < 0) {
      return fail_errno(errno, "write");
    }
    bytes.remove_prefix(static_cast<size_t>(count));
  }
  return {};
}

Result<void> write_file(const std::string& path, std::string_view bytes) {
  ASSIGN_OR_RETURN(const Fd file, open(path, O_WRONLY));
  const ssize_t count = retry([&] { return ::write(file.get(), bytes.data(), bytes.size()); });
  if (count < 0) {
    return fail_errno(errno, "write ", path);
  }
  return {};
}

Result<void> replace_file(const std::string& path, std::string_view bytes, mode_t mode) {
  const std::string temporary = path + ".new";
  // One that was left, or is a link: what is written is a file of its own in any case.
  ::unlink(temporary.c_str());
  ASSIGN_OR_RETURN(const Fd file, open(temporary, O_WRONLY | O_CREAT | O_EXCL, mode));
  if (auto written = write_all(file.get(), bytes); !written) {
    ::unlink(temporary.c_str());  // half of it, on a disk that is full
    return with_context(std::move(written), temporary);
  }
  if (::fchmod(file.get(), mode) != 0 || ::rename(temporary.c_str(), path.c_str()) != 0) {
    return fail_errno(errno, "replace ", path);
  }
  return {};
}

Result<void> make_folder(const std::string& path, mode_t mode) {
  if (::mkdir(path.c_str(), mode) != 0 && errno != EEXIST) {
    return fail_errno(errno, "make folder ", path);
  }
  return {};
}

Result<void> make_folders(const std::string& path, mode_t mode) {
  for (size_t at = path.find('/', 1); at != std::string::npos; at = path.find('/', at + 1)) {
    RETURN_IF_ERROR(make_folder(path.substr(0, at), mode));
  }
  return make_folder(path, mode);
}

namespace {

template <typename Wanted>
Result<std::vector<std::string>> list_entries(const std::string& path, const Wanted& wanted) {
  const std::unique_ptr<DIR, CloseFolder> folder(::opendir(path.c_str()));
  if (!folder) {
    return fail_errno(errno, "open folder ", path);
  }
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(folder.get())) {
    const std::string_view name = static_cast<const char*>(entry->d_name);
    if (name != "." && name != ".." && wanted(::dirfd(folder.get()), *entry)) {
      names.emplace_back(name);
    }
  }
  return names;
}

bool is_folder(int parent, const dirent& entry) {
  struct stat status{};
  return entry.d_type == DT_UNKNOWN
             ? ::fstatat(parent, entry.d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
                   S_ISDIR(status.st_mode)
             : entry.d_type == DT_DIR;
}

}  // namespace

Result<std::vector<std::string>> list_folder(const std::string& path) {
  return list_entries(path, [](int, const dirent&) { return true; });
}

Result<std::vector<std::string>> list_subfolders(const std::string& path) {
  return list_entries(path, is_folder);
}

Result<void> remove_tree(const std::string& path) {
  struct stat status{};
  if (::lstat(path.c_str(), &status) != 0) {
    return errno == ENOENT ? Result<void>{} : fail_errno(errno, "stat ", path);
  }
  return with_context(remove_entry(AT_FDCWD, path.c_str(), status.st_dev, 0), path);
}

Result<void> set_nonblocking(int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0 || ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0) {
    return fail_errno(errno, "set O_NONBLOCK");
  }
  return {};
}

Result<std::pair<Fd, Fd>> make_pipe(int extra_flags) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC | extra_flags) != 0) {
    return fail_errno(errno, "make a pipe");
  }
  return std::pair(Fd(ends[0]), Fd(ends[1]));
}

Result<std::pair<Fd, Fd>> make_socket_pair(int type) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return fail_errno(errno, "make a socket pair");
  }
  return std::pair(Fd(ends[0]), Fd(ends[1]));
}

Result<Fd> listen_unix(const std::string& path, mode_t mode, int backlog) {
  ASSIGN_OR_RETURN(const UnixAddress address, unix_address(path));
  Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) {
    return fail_errno(errno, "make a socket");
  }
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
    return fail_errno(errno, "delete ", path);
  }
  if (::bind(socket.get(), as_sockaddr(address), sizeof address.name) != 0 ||
      ::chmod(path.c_str(), mode) != 0 || ::listen(socket.get(), backlog) != 0) {
    return fail_errno(errno, "listen on ", path);
  }
  return socket;
}

Result<Fd> connect_unix(const std::string& path, bool nonblocking) {
  ASSIGN_OR_RETURN(const UnixAddress address, unix_address(path));
  const int flags = SOCK_STREAM | SOCK_CLOEXEC | (nonblocking ? SOCK_NONBLOCK : 0);
  Fd socket(::socket(AF_UNIX, flags, 0));
  if (!socket) {
    return fail_errno(errno, "make a socket");
  }
  if (retry([&] { return ::connect(socket.get(), as_sockaddr(address), sizeof address.name); }) !=
      0) {
    return fail_errno(errno, "connect to ", path);
  }
  return socket;
}

Result<Fd> make_sealed_memory(const std::string& name, std::string_view bytes) {
  Fd memory(::memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory) {
    return fail_errno(errno, "make a memory file");
  }
  RETURN_IF_ERROR(write_all(memory.get(), bytes));
  if (::lseek(memory.get(), 0, SEEK_SET) != 0 ||
      ::fcntl(memory.get(), F_ADD_SEALS,
              F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) != 0) {
    return fail_errno(errno, "seal a memory file");
  }
  return memory;
}

Result<size_t> send_some_with_fds(int socket, std::string_view bytes, std::span<const int> fds) {
  if (fds.size() > kFdsPerMessageMax) {
    return fail_errno(EINVAL, "send ", fds.size(), " descriptors");
  }
  iovec part{.iov_base = const_cast<char*>(bytes.data()), .iov_len = bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kFdsPerMessageMax)> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!fds.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(sizeof(int) * fds.size());
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int) * fds.size());
    ::memcpy(CMSG_DATA(header), fds.data(), sizeof(int) * fds.size());
  }
  const ssize_t count = retry([&] { return ::sendmsg(socket, &message, MSG_NOSIGNAL); });
  if (count < 0) {
    return fail_errno(errno, "send a message");
  }
  return static_cast<size_t>(count);
}

Result<void> send_with_fds(int socket, std::string_view bytes, std::span<const int> fds) {
  ASSIGN_OR_RETURN(const size_t count, send_some_with_fds(socket, bytes, fds));
  if (count != bytes.size()) {
    return fail_errno(EMSGSIZE, "send a message of ", bytes.size(), " bytes");
  }
  return {};
}

Result<Received> receive_with_fds(int socket, std::span<char> buffer) {
  iovec part{.iov_base = buffer.data(), .iov_len = buffer.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kFdsPerMessageMax)> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t count = retry([&] { return ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC); });
  if (count < 0) {
    return fail_errno(errno, "receive a message");
  }
  Received received{.size = static_cast<size_t>(count)};
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS) {
      const size_t number_count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      std::vector<int> numbers(number_count);
      ::memcpy(numbers.data(), CMSG_DATA(header), number_count * sizeof(int));
      for (const int number : numbers) {
        received.fds.emplace_back(number);
      }
    }
  }
  if ((message.msg_flags & MSG_CTRUNC) != 0) {
    return fail_errno(EMSGSIZE, "receive a message with too many descriptors");
  }
  return received;
}

}  // namespace base::sys
