// What an SFTP client does with files and folders that it has opened.
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "agent/sftp_server.h"

namespace agent::sftp {
namespace {

constexpr uint32_t kOpenRead = 0x1;
constexpr uint32_t kOpenWrite = 0x2;
constexpr uint32_t kOpenAppend = 0x4;
constexpr uint32_t kOpenCreate = 0x8;
constexpr uint32_t kOpenTruncate = 0x10;
constexpr uint32_t kOpenExclusive = 0x20;
constexpr mode_t kFileMode = 0666;
constexpr mode_t kModeBits = 07777;
// Of one answer: the packet they make stays far below its limit with the longest names.
constexpr uint32_t kEntriesAtOnce = 100;
constexpr size_t kCopyBytes = size_t{64} * 1024;
constexpr size_t kKernelCopyBytes = size_t{64} * 1024 * 1024;

int open_flags(uint32_t wanted) {
  const bool reads = (wanted & kOpenRead) != 0;
  const bool writes = (wanted & kOpenWrite) != 0;
  // A FIFO without another end must not hold the conversation up.
  int flags = O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
  flags |= writes ? (reads ? O_RDWR : O_WRONLY) : O_RDONLY;
  const auto add = [&](uint32_t bit, int flag) { flags |= (wanted & bit) != 0 ? flag : 0; };
  if (writes) {
    add(kOpenAppend, O_APPEND);
    add(kOpenCreate, O_CREAT);
    add(kOpenTruncate, O_TRUNC);
    add(kOpenExclusive, O_EXCL);
  }
  return flags;
}

// Reads until it has all or the file ends: how many bytes, or -1.
ssize_t read_at(int file, char* bytes, size_t size, uint64_t offset) {
  size_t done = 0;
  while (done < size) {
    const ssize_t count =
        ::pread(file, bytes + done, size - done, static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count <= 0) {
      return count < 0 && done == 0 ? -1 : static_cast<ssize_t>(done);
    }
    done += static_cast<size_t>(count);
  }
  return static_cast<ssize_t>(done);
}

int write_at(int file, std::string_view bytes, uint64_t offset) {
  while (!bytes.empty()) {
    const ssize_t count = ::pwrite(file, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count <= 0) {
      return count < 0 ? errno : EIO;
    }
    bytes.remove_prefix(static_cast<size_t>(count));
    offset += static_cast<uint64_t>(count);
  }
  return 0;
}

struct Copy {
  int from;
  int to;
  uint64_t from_offset;
  uint64_t to_offset;
  uint64_t size;
};

bool are_of_one_file(int first, int second) {
  struct stat one{};
  struct stat other{};
  return ::fstat(first, &one) == 0 && ::fstat(second, &other) == 0 && one.st_dev == other.st_dev &&
         one.st_ino == other.st_ino;
}

bool cannot_be_done_by_kernel(int error) {
  return error == EINVAL || error == EXDEV || error == EOPNOTSUPP || error == ENOSYS ||
         error == EBADF || error == ETXTBSY;
}

// Up to the end of what is read; errno, or 0.
int copy_through_memory(Copy copy) {
  std::array<char, kCopyBytes> buffer;
  while (copy.size > 0) {
    const ssize_t count = read_at(copy.from, buffer.data(),
                                  std::min<uint64_t>(copy.size, kCopyBytes), copy.from_offset);
    if (count <= 0) {
      return count < 0 ? errno : 0;
    }
    const auto size = static_cast<size_t>(count);
    if (const int error = write_at(copy.to, {buffer.data(), size}, copy.to_offset)) {
      return error;
    }
    copy.from_offset += size;
    copy.to_offset += size;
    copy.size -= size;
  }
  return 0;
}

int copy_range(Copy copy) {
  auto from = static_cast<off_t>(copy.from_offset);
  auto to = static_cast<off_t>(copy.to_offset);
  bool began = false;
  while (copy.size > 0) {
    const ssize_t count = ::copy_file_range(copy.from, &from, copy.to, &to,
                                            std::min<uint64_t>(copy.size, kKernelCopyBytes), 0);
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0 && !began && cannot_be_done_by_kernel(errno)) {
      return copy_through_memory(copy);
    }
    if (count == 0 && !began) {
      return copy_through_memory(copy);  // files of /proc say so and have bytes nevertheless
    }
    if (count <= 0) {
      return count < 0 ? errno : 0;
    }
    began = true;
    copy.size -= static_cast<uint64_t>(count);
  }
  return 0;
}

}  // namespace

void Server::open_file(PacketReader& packet) {
  const std::string path = packet.path();
  const uint32_t wanted = packet.number32();
  const Attributes attributes = packet.attributes();
  if (!packet.ok()) {
    answer_status(Status::bad_message);
    return;
  }
  if (!handles_.has_room_for_file()) {
    answer_errno(EMFILE);
    return;
  }
  const mode_t mode = attributes.has(Attributes::kMode) ? attributes.mode & kModeBits : kFileMode;
  Handle handle{.file = base::Fd(::open(path.c_str(), open_flags(wanted), mode)), .folder = {}};
  if (!handle.file) {
    answer_errno(errno);
    return;
  }
  out_.begin(Type::handle).number32(id_).text(handles_.add(std::move(handle))).finish();
}

void Server::close_handle(PacketReader& packet) { answer_errno(handles_.close(packet.text())); }

void Server::read_file(PacketReader& packet) {
  const std::string_view name = packet.text();
  const uint64_t offset = packet.number64();
  const size_t size = std::min(packet.number32(), kDataBytesMax);
  Handle* handle = find_handle(name);
  if (handle == nullptr) {
    return;
  }
  if (!packet.ok() || size == 0 || offset > INT64_MAX - size) {
    answer_status(Status::bad_message);
    return;
  }
  const size_t start = answers_.size();
  out_.begin(Type::data).number32(id_);
  const size_t length_place = out_.place();
  out_.number32(0);
  const size_t data_place = out_.place();
  ssize_t count = 0;
  answers_.resize_and_overwrite(data_place + size, [&](char* bytes, size_t) {
    count = read_at(handle->descriptor(), bytes + data_place, size, offset);
    return data_place + static_cast<size_t>(std::max<ssize_t>(count, 0));
  });
  if (count <= 0) {
    const int error = errno;
    answers_.resize(start);
    count < 0 ? answer_errno(error) : answer_status(Status::end_of_file);
    return;
  }
  out_.replace32(length_place, static_cast<uint32_t>(count));
  out_.finish();
}

void Server::write_file(PacketReader& packet) {
  const std::string_view name = packet.text();
  const uint64_t offset = packet.number64();
  const std::string_view bytes = packet.text();
  Handle* handle = find_handle(name);
  if (handle == nullptr) {
    return;
  }
  if (!packet.ok() || offset > INT64_MAX - bytes.size()) {
    answer_status(Status::bad_message);
    return;
  }
  answer_errno(write_at(handle->descriptor(), bytes, offset));
}

void Server::stat_handle(PacketReader& packet) {
  if (const Handle* handle = find_handle(packet.text())) {
    struct stat file{};
    const int result = ::fstat(handle->descriptor(), &file);
    answer_attributes(result, file);
  }
}

void Server::set_handle(PacketReader& packet) {
  const std::string_view name = packet.text();
  const Attributes wanted = packet.attributes();
  if (const Handle* handle = find_handle(name)) {
    packet.ok() ? answer_errno(apply_to_file(handle->descriptor(), wanted))
                : answer_status(Status::bad_message);
  }
}

void Server::open_folder(PacketReader& packet) {
  const std::string path = packet.path();
  if (!packet.ok()) {
    answer_status(Status::bad_message);
    return;
  }
  if (!handles_.has_room_for_folder()) {
    answer_errno(EMFILE);
    return;
  }
  Handle handle{.file = {}, .folder = {::opendir(path.c_str()), {}}};
  if (!handle.folder) {
    answer_errno(errno);
    return;
  }
  out_.begin(Type::handle).number32(id_).text(handles_.add(std::move(handle))).finish();
}

void Server::read_folder(PacketReader& packet) {
  Handle* handle = find_handle(packet.text());
  if (handle == nullptr) {
    return;
  }
  if (!handle->folder) {
    answer_errno(ENOTDIR);
    return;
  }
  const size_t start = answers_.size();
  out_.begin(Type::name).number32(id_);
  const size_t count_place = out_.place();
  out_.number32(0);
  uint32_t count = 0;
  int error = 0;
  while (count < kEntriesAtOnce) {
    errno = 0;
    const dirent* entry = ::readdir(handle->folder.get());
    if (entry == nullptr) {
      error = errno;
      break;
    }
    struct stat file{};
    if (::fstatat(handle->descriptor(), entry->d_name, &file, AT_SYMLINK_NOFOLLOW) != 0) {
      continue;  // it is gone meanwhile
    }
    out_.text(entry->d_name).text(long_names_.of(entry->d_name, file));
    out_.attributes(attributes_of(file));
    ++count;
  }
  if (count == 0) {
    answers_.resize(start);
    error != 0 ? answer_errno(error) : answer_status(Status::end_of_file);
    return;
  }
  out_.replace32(count_place, count);
  out_.finish();
}

void Server::sync_file(PacketReader& packet) {
  if (const Handle* handle = find_handle(packet.text())) {
    answer_result(::fsync(handle->descriptor()));
  }
}

void Server::copy_data(PacketReader& packet) {
  const std::string_view from_name = packet.text();
  const uint64_t from_offset = packet.number64();
  const uint64_t size = packet.number64();
  const std::string_view to_name = packet.text();
  const uint64_t to_offset = packet.number64();
  const Handle* from = find_handle(from_name);
  const Handle* to = from == nullptr ? nullptr : find_handle(to_name);
  if (to == nullptr) {
    return;
  }
  if (!packet.ok() || from_offset > INT64_MAX || to_offset > INT64_MAX) {
    answer_status(Status::bad_message);
    return;
  }
  // Its end would move on before the copy.
  if (are_of_one_file(from->descriptor(), to->descriptor())) {
    answer_status(Status::failure, "A file is not copied onto itself");
    return;
  }
  answer_errno(copy_range({.from = from->descriptor(),
                           .to = to->descriptor(),
                           .from_offset = from_offset,
                           .to_offset = to_offset,
                           .size = size == 0 ? UINT64_MAX : size}));
}

}  // namespace agent::sftp
