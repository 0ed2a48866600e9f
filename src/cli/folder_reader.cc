#include "cli/folder_reader.h"

#include <archive.h>
#include <archive_entry.h>
#include <locale.h>
#include <stdlib.h>

#include <algorithm>
#include <cerrno>

namespace cli {

using base::ErrorCode;
using base::fail;

namespace {

constexpr size_t kReadBytes = 128UL * 1024;

la_ssize_t append_made(::archive*, void* user, const void* bytes, size_t size) {
  static_cast<std::string*>(user)->append(static_cast<const char*>(bytes), size);
  return static_cast<la_ssize_t>(size);
}

bool is_carried(::archive_entry* entry) {
  const auto type = ::archive_entry_filetype(entry);
  return type == AE_IFREG || type == AE_IFDIR || type == AE_IFLNK;
}

}  // namespace

struct FolderReader::Archives {
  ::archive* disk = ::archive_read_disk_new();
  ::archive* tar = ::archive_write_new();
  ::archive_entry_linkresolver* links = ::archive_entry_linkresolver_new();
  ::archive_entry* entry = ::archive_entry_new();
  std::string buffer = std::string(kReadBytes, '\0');
  Archives() = default;
  Archives(const Archives&) = delete;
  Archives& operator=(const Archives&) = delete;
  ~Archives() {
    ::archive_entry_free(entry);
    ::archive_entry_linkresolver_free(links);
    ::archive_write_free(tar);
    ::archive_read_free(disk);
  }

  std::unexpected<base::Error> disk_error() const {
    const char* text = ::archive_error_string(disk);
    return fail(ErrorCode::io, "read the folder: ", text == nullptr ? "it changed" : text);
  }
  std::unexpected<base::Error> tar_error() const {
    const char* text = ::archive_error_string(tar);
    return fail(ErrorCode::io, "make the archive: ", text == nullptr ? "unknown" : text);
  }
};

FolderReader::FolderReader(std::string path)
    : path_(std::move(path)), archives_(std::make_unique<Archives>()) {}

FolderReader::~FolderReader() = default;

Result<std::unique_ptr<FolderReader>> FolderReader::open(const std::string& path, Packing packing) {
  ::setlocale(LC_CTYPE, "C.UTF-8");  // names are bytes; this is how libarchive takes them as such
  const std::unique_ptr<char, decltype(&::free)> whole(::realpath(path.c_str(), nullptr), &::free);
  if (whole == nullptr) {
    return base::fail_errno(errno, "look at ", path);
  }
  auto reader = std::unique_ptr<FolderReader>(new FolderReader(whole.get()));
  Archives& archives = *reader->archives_;
  ::archive_read_disk_set_symlink_physical(archives.disk);
  ::archive_read_disk_set_behavior(archives.disk,
                                   ARCHIVE_READDISK_NO_ACL | ARCHIVE_READDISK_NO_XATTR |
                                       ARCHIVE_READDISK_NO_FFLAGS | ARCHIVE_READDISK_NO_SPARSE);
  ::archive_write_set_format_pax_restricted(archives.tar);
  ::archive_write_set_bytes_per_block(archives.tar, 0);  // hand over what is made at once
  // Level 1: a network is rarely faster.
  if (packing == Packing::zstd &&
      (::archive_write_add_filter_zstd(archives.tar) != ARCHIVE_OK ||
       ::archive_write_set_filter_option(archives.tar, "zstd", "compression-level", "1") !=
           ARCHIVE_OK)) {
    return archives.tar_error();
  }
  ::archive_entry_linkresolver_set_strategy(archives.links, ARCHIVE_FORMAT_TAR_PAX_RESTRICTED);
  if (::archive_write_open(archives.tar, &reader->made_, nullptr, append_made, nullptr) !=
      ARCHIVE_OK) {
    return archives.tar_error();
  }
  if (::archive_read_disk_open(archives.disk, whole.get()) != ARCHIVE_OK) {
    return archives.disk_error();
  }
  return reader;
}

Result<void> FolderReader::add_file(const std::string& name, std::string_view content) {
  constexpr unsigned kMode = 0644;
  ::archive_entry* entry = archives_->entry;
  ::archive_entry_clear(entry);
  ::archive_entry_set_pathname(entry, name.c_str());
  ::archive_entry_set_filetype(entry, AE_IFREG);
  ::archive_entry_set_perm(entry, kMode);
  ::archive_entry_set_size(entry, static_cast<la_int64_t>(content.size()));
  if (::archive_write_header(archives_->tar, entry) < ARCHIVE_WARN ||
      ::archive_write_data(archives_->tar, content.data(), content.size()) < 0) {
    return archives_->tar_error();
  }
  return {};
}

Result<size_t> FolderReader::read(std::span<char> buffer) {
  while (given_ == made_.size()) {
    made_.clear();
    given_ = 0;
    if (finished_) {
      return 0;
    }
    RETURN_IF_ERROR(advance());
  }
  const size_t size = std::min(buffer.size(), made_.size() - given_);
  made_.copy(buffer.data(), size, given_);
  given_ += size;
  return size;
}

Result<void> FolderReader::advance() { return in_file_ ? copy_data() : begin_entry(); }

Result<void> FolderReader::begin_entry() {
  Archives& archives = *archives_;
  ::archive_entry* entry = archives.entry;
  ::archive_entry_clear(entry);
  const int status = ::archive_read_next_header2(archives.disk, entry);
  if (status == ARCHIVE_EOF) {
    finished_ = true;
    return ::archive_write_close(archives.tar) == ARCHIVE_OK ? Result<void>{}
                                                             : archives.tar_error();
  }
  if (status < ARCHIVE_WARN) {
    return archives.disk_error();
  }
  if (::archive_entry_filetype(entry) == AE_IFDIR) {
    ::archive_read_disk_descend(archives.disk);
  }
  if (!is_carried(entry)) {
    ++left_out_;
    return {};
  }
  const std::string whole = ::archive_entry_pathname(entry);
  std::string name = whole.substr(std::min(path_.size(), whole.size()));
  name.erase(0, name.find_first_not_of('/'));
  name = name.empty() ? "." : "./" + name;
  ::archive_entry_copy_pathname(entry, name.c_str());
  ::archive_entry_set_uid(entry, 0);
  ::archive_entry_set_gid(entry, 0);
  ::archive_entry_set_uname(entry, "");
  ::archive_entry_set_gname(entry, "");
  ::archive_entry* later = nullptr;
  ::archive_entry_linkify(archives.links, &entry, &later);
  if (entry == nullptr || later != nullptr) {
    return fail(ErrorCode::internal, "libarchive holds ", whole, " back");
  }
  if (::archive_write_header(archives.tar, entry) < ARCHIVE_WARN) {
    return archives.tar_error();
  }
  left_of_file_ = ::archive_entry_filetype(entry) == AE_IFREG ? ::archive_entry_size(entry) : 0;
  in_file_ = left_of_file_ > 0;
  return {};
}

Result<void> FolderReader::copy_data() {
  Archives& archives = *archives_;
  const la_ssize_t got =
      ::archive_read_data(archives.disk, archives.buffer.data(), archives.buffer.size());
  if (got < 0) {
    return archives.disk_error();
  }
  if (got == 0) {
    in_file_ = false;
    return left_of_file_ == 0 ? Result<void>{}
                              : fail(ErrorCode::io, ::archive_entry_sourcepath(archives.entry),
                                     " became shorter while it was read");
  }
  const la_ssize_t written =
      ::archive_write_data(archives.tar, archives.buffer.data(), static_cast<size_t>(got));
  if (written < 0) {
    return archives.tar_error();
  }
  left_of_file_ -= written;
  return {};
}

}  // namespace cli
