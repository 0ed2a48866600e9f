// System calls as Result: EINTR retried, the error names call and object. Everything opened is
// CLOEXEC. Calls that only the launcher needs (clone3, mounts) live in jail/.
#pragma once

#include <fcntl.h>
#include <sys/types.h>

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/fd.h"

namespace base::sys {

Result<Fd> open(const std::string& path, int flags, mode_t mode = 0);
Result<Fd> open_at(int folder, const std::string& path, int flags, mode_t mode = 0);
// openat2(2) that cannot leave `folder` and follows no link at all (RESOLVE_BENEATH |
// RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS).
Result<Fd> open_beneath(int folder, const std::string& path, int flags, mode_t mode = 0);
// openat2(2) that resolves links as if `folder` were the root (RESOLVE_IN_ROOT |
// RESOLVE_NO_MAGICLINKS).
Result<Fd> open_in_root(int folder, const std::string& path, int flags, mode_t mode = 0);

// The whole file; more than `bytes_max` is an error (code body_too_large).
Result<std::string> read_file(const std::string& path, size_t bytes_max);
Result<std::string> read_all(int fd, size_t bytes_max);
Result<void> write_all(int fd, std::string_view bytes);
// Writes an existing file (a sysctl, a cgroup's) in one write(2).
Result<void> write_file(const std::string& path, std::string_view bytes);
// Temporary file beside it + rename: readers see the old or the new whole. No fsync.
Result<void> replace_file(const std::string& path, std::string_view bytes, mode_t mode);
Result<void> make_folder(const std::string& path, mode_t mode);  // existing is fine
Result<void> make_folders(const std::string& path, mode_t mode);
Result<std::vector<std::string>> list_folder(const std::string& path);  // without . and ..
// Only the folders in it, links excluded; costs no call an entry where the file system tells types.
Result<std::vector<std::string>> list_subfolders(const std::string& path);
// Deletes a tree; follows no link, crosses no mount. Absent is fine.
Result<void> remove_tree(const std::string& path);

Result<void> set_nonblocking(int fd);
// A read end and a write end.
Result<std::pair<Fd, Fd>> make_pipe(int extra_flags = 0);
Result<std::pair<Fd, Fd>> make_socket_pair(int type);
// A listening SOCK_STREAM unix socket, bound fresh (an old file is replaced).
Result<Fd> listen_unix(const std::string& path, mode_t mode, int backlog);
Result<Fd> connect_unix(const std::string& path, bool nonblocking);
// An anonymous file with these bytes, sealed against any change.
Result<Fd> make_sealed_memory(const std::string& name, std::string_view bytes);
// One message with descriptors (SCM_RIGHTS), and its reader: at most 16 descriptors.
Result<void> send_with_fds(int socket, std::string_view bytes, std::span<const int> fds);
// The same on a stream socket that may take only a part of the bytes: how many it took (with the
// first of them went the descriptors). io with EAGAIN when a non-blocking socket has no room.
Result<size_t> send_some_with_fds(int socket, std::string_view bytes, std::span<const int> fds);
struct Received {
  size_t size = 0;
  std::vector<Fd> fds;
};
Result<Received> receive_with_fds(int socket, std::span<char> buffer);

}  // namespace base::sys
