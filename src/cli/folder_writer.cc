#include "cli/folder_writer.h"

#include <archive.h>
#include <archive_entry.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/sys.h"

namespace cli {

using base::ErrorCode;
using base::fail;
using base::Fd;

namespace {

// What another machine may say of a file here: not setuid, setgid, sticky.
constexpr mode_t kModeBits = 0777;
// A hostile archive of nothing but folders ends here; real trees have a hundredth of that.
constexpr size_t kFoldersMax = 2'000'000;

std::string last_part(const std::string& path) { return path.substr(path.rfind('/') + 1); }

std::string folder_part(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == path.npos ? "" : path.substr(0, slash);
}

std::unexpected<base::Error> refuse(std::string_view name, std::string_view why) {
  return fail(ErrorCode::archive_invalid, "the archive's entry '", name, "' ", why);
}

std::unexpected<base::Error> archive_error(::archive* from) {
  const char* text = ::archive_error_string(from);
  return fail(ErrorCode::archive_invalid,
              "the archive is damaged: ", text == nullptr ? "unknown" : text);
}

timespec modified_time(::archive_entry* entry) {
  if (::archive_entry_mtime_is_set(entry) == 0) {
    return {.tv_sec = 0, .tv_nsec = UTIME_OMIT};
  }
  return {.tv_sec = ::archive_entry_mtime(entry), .tv_nsec = ::archive_entry_mtime_nsec(entry)};
}

// Writes the entry's content, holes as holes.
Result<void> write_content(::archive* from, int fd, int64_t size, const std::string& path) {
  const void* bytes = nullptr;
  size_t count = 0;
  la_int64_t offset = 0;
  while (true) {
    const int status = ::archive_read_data_block(from, &bytes, &count, &offset);
    if (status == ARCHIVE_EOF) {
      break;
    }
    if (status < ARCHIVE_WARN) {
      return archive_error(from);
    }
    if (::lseek(fd, offset, SEEK_SET) < 0) {
      return base::fail_errno(errno, "write ", path);
    }
    RETURN_IF_ERROR(base::sys::write_all(fd, {static_cast<const char*>(bytes), count}));
  }
  if (size > 0 && ::ftruncate(fd, size) != 0) {
    return base::fail_errno(errno, "write ", path);
  }
  return {};
}

}  // namespace

Result<std::string> clean_entry_path(std::string_view name) {
  if (name.empty() || name.starts_with('/')) {
    return refuse(name, "has no relative name");
  }
  std::string path;
  for (const std::string_view part : base::split(name, '/')) {
    if (part.empty() || part == ".") {
      continue;
    }
    if (part == ".." || part.size() > NAME_MAX) {
      return refuse(name, "has a name that cannot be used");
    }
    path += base::cat(path.empty() ? "" : "/", part);
  }
  if (path.size() >= PATH_MAX) {
    return refuse(name, "has too long a name");
  }
  return path;
}

FolderWriter::FolderWriter(Fd root) : root_(std::move(root)), mask_(::umask(0)) { ::umask(mask_); }

Result<FolderWriter> FolderWriter::open(const std::string& path) {
  if (::mkdir(path.c_str(), kModeBits) != 0 && errno != EEXIST) {
    return base::fail_errno(errno, "make the folder ", path);
  }
  ASSIGN_OR_RETURN(auto root, base::sys::open(path, O_RDONLY | O_DIRECTORY));
  return FolderWriter(std::move(root));
}

Result<void> FolderWriter::take_all(::archive* from) {
  while (true) {
    ::archive_entry* entry = nullptr;
    const int status = ::archive_read_next_header(from, &entry);
    if (status == ARCHIVE_EOF) {
      return finish_folders();
    }
    if (status < ARCHIVE_WARN) {
      return archive_error(from);
    }
    RETURN_IF_ERROR(take(from, entry));
  }
}

Result<void> FolderWriter::take(::archive* from, ::archive_entry* entry) {
  const char* name = ::archive_entry_pathname(entry);
  ASSIGN_OR_RETURN(const auto path, clean_entry_path(name == nullptr ? "" : name));
  if (const char* target = ::archive_entry_hardlink(entry)) {
    return take_hardlink(target, path);
  }
  const auto type = ::archive_entry_filetype(entry);
  if (type == AE_IFDIR) {
    return take_folder(
        path, {.mode = ::archive_entry_perm(entry) & kModeBits, .modified = modified_time(entry)});
  }
  if (path.empty()) {
    return refuse(name, "would take the folder's own place");
  }
  if (type == AE_IFREG) {
    return take_file(from, entry, path);
  }
  if (type == AE_IFLNK) {
    return take_symlink(entry, path);
  }
  ++left_out_;
  return {};
}

Result<void> FolderWriter::take_folder(const std::string& path, const Late& late) {
  if (folders_.size() >= kFoldersMax) {
    return refuse(path, "is one folder too many");
  }
  if (!path.empty()) {
    ASSIGN_OR_RETURN(const auto folder, open_folder(path));
  }
  folders_[path] = late;
  return {};
}

Result<void> FolderWriter::take_file(::archive* from, ::archive_entry* entry,
                                     const std::string& path) {
  ASSIGN_OR_RETURN(const int parent, parent_of(path));
  const std::string name = last_part(path);
  const std::string temporary = base::cat(".sandbox-cp-", ::getpid());
  ::unlinkat(parent, temporary.c_str(), 0);  // of one that broke off
  ASSIGN_OR_RETURN(
      const auto file,
      base::sys::open_at(parent, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600));
  auto written = write_content(from, file.get(), ::archive_entry_size(entry), path);
  const timespec times[2] = {{.tv_sec = 0, .tv_nsec = UTIME_OMIT}, modified_time(entry)};
  const mode_t mode = ::archive_entry_perm(entry) & kModeBits & ~mask_;
  if (written && (::fchmod(file.get(), mode) != 0 || ::futimens(file.get(), times) != 0 ||
                  ::renameat(parent, temporary.c_str(), parent, name.c_str()) != 0)) {
    written = base::fail_errno(errno, "put ", path, " into place");
  }
  if (!written) {
    ::unlinkat(parent, temporary.c_str(), 0);
  }
  return written;
}

Result<void> FolderWriter::take_symlink(::archive_entry* entry, const std::string& path) {
  ASSIGN_OR_RETURN(const int parent, parent_of(path));
  const std::string name = last_part(path);
  const char* target = ::archive_entry_symlink(entry);
  if (target == nullptr || *target == '\0') {
    return refuse(path, "is a link to nothing");
  }
  ::unlinkat(parent, name.c_str(), 0);  // a folder stays, and is the error of the next call
  if (::symlinkat(target, parent, name.c_str()) != 0) {
    return base::fail_errno(errno, "make the link ", path);
  }
  const timespec times[2] = {{.tv_sec = 0, .tv_nsec = UTIME_OMIT}, modified_time(entry)};
  ::utimensat(parent, name.c_str(), times, AT_SYMLINK_NOFOLLOW);  // not every file system can
  return {};
}

Result<void> FolderWriter::take_hardlink(const std::string& target, const std::string& path) {
  ASSIGN_OR_RETURN(const auto from, clean_entry_path(target));
  if (from.empty() || path.empty()) {
    return refuse(path, "is a hard link of a folder");
  }
  if (from == path) {
    return {};
  }
  const std::string folder = folder_part(from);
  auto source = folder.empty() ? base::sys::open_at(root_.get(), ".", O_PATH | O_DIRECTORY)
                               : base::sys::open_beneath(root_.get(), folder, O_PATH | O_DIRECTORY);
  if (!source) {
    return refuse(path, "is a hard link of what is not in the archive");
  }
  ASSIGN_OR_RETURN(const int parent, parent_of(path));
  const std::string name = last_part(path);
  ::unlinkat(parent, name.c_str(), 0);
  // Without AT_SYMLINK_FOLLOW: a link is linked, not what it names.
  if (::linkat(source->get(), last_part(from).c_str(), parent, name.c_str(), 0) != 0) {
    return base::fail_errno(errno, "make the hard link ", path);
  }
  return {};
}

Result<int> FolderWriter::parent_of(const std::string& path) {
  const std::string folder = folder_part(path);
  if (folder.empty()) {
    return root_.get();
  }
  if (!parent_ || folder != parent_path_) {
    ASSIGN_OR_RETURN(parent_, open_folder(folder));
    parent_path_ = folder;
  }
  return parent_.get();
}

Result<Fd> FolderWriter::open_folder(const std::string& path) {
  constexpr int kFlags = O_RDONLY | O_DIRECTORY;
  auto found = base::sys::open_beneath(root_.get(), path, kFlags);
  if (found || found.error().errno_value != ENOENT) {
    return base::with_context(std::move(found), path);
  }
  Fd folder;
  std::string so_far;
  for (const std::string_view part : base::split(path, '/')) {
    so_far += base::cat(so_far.empty() ? "" : "/", part);
    const int above = folder ? folder.get() : root_.get();
    const std::string name(part);
    if (::mkdirat(above, name.c_str(), kModeBits) != 0 && errno != EEXIST) {
      return base::fail_errno(errno, "make the folder ", so_far);
    }
    ASSIGN_OR_RETURN(folder,
                     base::with_context(base::sys::open_beneath(above, name, kFlags), so_far));
  }
  return folder;
}

// Innermost first, since a folder without write permission takes no change below it.
Result<void> FolderWriter::finish_folders() {
  parent_.reset();
  for (auto late = folders_.rbegin(); late != folders_.rend(); ++late) {
    const auto& [path, wanted] = *late;
    ASSIGN_OR_RETURN(const auto folder,
                     path.empty() ? base::sys::open_at(root_.get(), ".", O_RDONLY | O_DIRECTORY)
                                  : open_folder(path));
    const timespec times[2] = {{.tv_sec = 0, .tv_nsec = UTIME_OMIT}, wanted.modified};
    // The top folder is the user's own: its mode is not the archive's.
    const bool failed = !path.empty() && ::fchmod(folder.get(), wanted.mode & ~mask_) != 0;
    if (failed || ::futimens(folder.get(), times) != 0) {
      return base::fail_errno(errno, "set mode and time of ", path);
    }
  }
  return {};
}

}  // namespace cli
