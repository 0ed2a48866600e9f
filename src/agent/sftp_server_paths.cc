// What an SFTP client does with paths.
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <array>
#include <optional>

#include "agent/sftp_server.h"

namespace agent::sftp {
namespace {

constexpr mode_t kFolderMode = 0777;
constexpr mode_t kModeBits = 07777;

std::optional<std::string> real_path(const std::string& path) {
  std::array<char, PATH_MAX> resolved;
  if (::realpath(path.c_str(), resolved.data()) == nullptr) {
    return std::nullopt;
  }
  return std::string(resolved.data());
}

// The last component need not be there: a client asks for the path of what it is going to make.
std::optional<std::string> resolve(std::string path) {
  if (auto found = real_path(path); found || errno != ENOENT) {
    return found;
  }
  while (path.size() > 1 && path.ends_with('/')) {
    path.pop_back();
  }
  const size_t slash = path.rfind('/');
  const std::string name = path.substr(slash == std::string::npos ? 0 : slash + 1);
  if (name == "..") {
    errno = ENOENT;
    return std::nullopt;
  }
  const auto folder = real_path(slash == std::string::npos ? "." : path.substr(0, slash + 1));
  if (!folder) {
    return std::nullopt;
  }
  return base::cat(*folder, *folder == "/" ? "" : "/", name);
}

// What the C library does where the file system has no such rename: never in one step.
int rename_by_link(const std::string& from, const std::string& to) {
  struct stat file{};
  if (::lstat(from.c_str(), &file) != 0) {
    return errno;
  }
  if (S_ISREG(file.st_mode) && ::link(from.c_str(), to.c_str()) == 0) {
    return ::unlink(from.c_str()) == 0 ? 0 : errno;
  }
  if (S_ISREG(file.st_mode) && errno == EEXIST) {
    return errno;
  }
  if (::lstat(to.c_str(), &file) == 0) {
    return EEXIST;
  }
  return ::rename(from.c_str(), to.c_str()) == 0 ? 0 : errno;
}

int rename_without_replacing(const std::string& from, const std::string& to) {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) {
    return 0;
  }
  return errno == EINVAL || errno == ENOSYS ? rename_by_link(from, to) : errno;
}

}  // namespace

void Server::stat_path(PacketReader& packet) {
  struct stat file{};
  const int result = ::stat(packet.path().c_str(), &file);
  packet.ok() ? answer_attributes(result, file) : answer_status(Status::bad_message);
}

void Server::stat_link(PacketReader& packet) {
  struct stat file{};
  const int result = ::lstat(packet.path().c_str(), &file);
  packet.ok() ? answer_attributes(result, file) : answer_status(Status::bad_message);
}

void Server::change_path(PacketReader& packet, Links links) {
  const std::string path = packet.path();
  const Attributes wanted = packet.attributes();
  packet.ok() ? answer_errno(apply_to_path(path, wanted, links))
              : answer_status(Status::bad_message);
}

void Server::set_path(PacketReader& packet) { change_path(packet, Links::follow); }

void Server::set_link(PacketReader& packet) { change_path(packet, Links::keep); }

void Server::remove_file(PacketReader& packet) {
  const std::string path = packet.path();
  packet.ok() ? answer_result(::unlink(path.c_str())) : answer_status(Status::bad_message);
}

void Server::make_folder(PacketReader& packet) {
  const std::string path = packet.path();
  const Attributes wanted = packet.attributes();
  const mode_t mode = wanted.has(Attributes::kMode) ? wanted.mode & kModeBits : kFolderMode;
  packet.ok() ? answer_result(::mkdir(path.c_str(), mode)) : answer_status(Status::bad_message);
}

void Server::remove_folder(PacketReader& packet) {
  const std::string path = packet.path();
  packet.ok() ? answer_result(::rmdir(path.c_str())) : answer_status(Status::bad_message);
}

void Server::answer_resolved(const std::string& path) {
  const auto resolved = resolve(path.empty() ? "." : path);
  resolved ? answer_name(*resolved) : answer_errno(errno);
}

void Server::resolve_path(PacketReader& packet) {
  const std::string path = packet.path();
  packet.ok() ? answer_resolved(path) : answer_status(Status::bad_message);
}

void Server::expand_path(PacketReader& packet) {
  const std::string path = packet.path();
  if (!packet.ok()) {
    answer_status(Status::bad_message);
    return;
  }
  if (!path.starts_with('~')) {
    answer_resolved(path);
    return;
  }
  const size_t slash = std::min(path.find('/'), path.size());
  const std::string user = path.substr(1, slash - 1);
  const char* own = ::getenv("HOME");
  std::string home = own == nullptr ? "/" : own;
  if (!user.empty()) {
    const auto found = Accounts().find(user);
    if (!found) {
      answer_errno(ENOENT);
      return;
    }
    home = found->home;
  }
  answer_resolved(home + path.substr(slash));
}

void Server::rename(PacketReader& packet) {
  const std::string from = packet.path();
  const std::string to = packet.path();
  packet.ok() ? answer_errno(rename_without_replacing(from, to))
              : answer_status(Status::bad_message);
}

void Server::rename_over(PacketReader& packet) {
  const std::string from = packet.path();
  const std::string to = packet.path();
  packet.ok() ? answer_result(::rename(from.c_str(), to.c_str()))
              : answer_status(Status::bad_message);
}

void Server::read_link(PacketReader& packet) {
  const std::string path = packet.path();
  std::array<char, PATH_MAX> target;
  const ssize_t size = ::readlink(path.c_str(), target.data(), target.size());
  if (!packet.ok()) {
    answer_status(Status::bad_message);
  } else if (size < 0) {
    answer_errno(errno);
  } else {
    answer_name({target.data(), static_cast<size_t>(size)});
  }
}

// OpenSSH's order of the two, which all clients have taken over: the draft has the other one.
void Server::make_symbolic_link(PacketReader& packet) {
  const std::string target = packet.path();
  const std::string path = packet.path();
  packet.ok() ? answer_result(::symlink(target.c_str(), path.c_str()))
              : answer_status(Status::bad_message);
}

void Server::make_hard_link(PacketReader& packet) {
  const std::string from = packet.path();
  const std::string to = packet.path();
  packet.ok() ? answer_result(::link(from.c_str(), to.c_str()))
              : answer_status(Status::bad_message);
}

namespace {

constexpr uint64_t kReadOnly = 0x1;
constexpr uint64_t kNoSetuid = 0x2;

void write_file_system(PacketWriter& out, const struct statvfs& system) {
  const uint64_t flags = ((system.f_flag & ST_RDONLY) != 0 ? kReadOnly : 0) |
                         ((system.f_flag & ST_NOSUID) != 0 ? kNoSetuid : 0);
  for (const uint64_t value : {system.f_bsize, system.f_frsize, system.f_blocks, system.f_bfree,
                               system.f_bavail, system.f_files, system.f_ffree, system.f_favail,
                               system.f_fsid, flags, uint64_t{system.f_namemax}}) {
    out.number64(value);
  }
}

}  // namespace

void Server::stat_file_system(PacketReader& packet) {
  const std::string path = packet.path();
  struct statvfs system{};
  if (!packet.ok()) {
    answer_status(Status::bad_message);
  } else if (::statvfs(path.c_str(), &system) != 0) {
    answer_errno(errno);
  } else {
    write_file_system(out_.begin(Type::extended_reply).number32(id_), system);
    out_.finish();
  }
}

void Server::stat_handles_file_system(PacketReader& packet) {
  const Handle* handle = find_handle(packet.text());
  struct statvfs system{};
  if (handle == nullptr) {
    return;
  }
  if (::fstatvfs(handle->descriptor(), &system) != 0) {
    answer_errno(errno);
    return;
  }
  write_file_system(out_.begin(Type::extended_reply).number32(id_), system);
  out_.finish();
}

}  // namespace agent::sftp
