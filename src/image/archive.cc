#include "image/archive.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <locale.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <memory>

#include "image/digest.h"

namespace image {
namespace {

constexpr size_t kReadBytes = 256 << 10;

struct FreeArchive {
  void operator()(::archive* archive) const { ::archive_read_free(archive); }
};
using ArchivePointer = std::unique_ptr<::archive, FreeArchive>;

std::string error_text(::archive* archive) {
  const char* text = ::archive_error_string(archive);
  return text == nullptr ? "damaged" : text;
}

// The archive's bytes as they are stored, counted into the blob's digest.
struct StoredBytes {
  int fd;
  Sha256 hash;
  int errno_value = 0;
  std::array<char, kReadBytes> buffer;

  ssize_t read(const void** bytes) {
    *bytes = buffer.data();
    ssize_t count = 0;
    do {
      count = ::read(fd, buffer.data(), buffer.size());
    } while (count < 0 && errno == EINTR);
    if (count < 0) {
      errno_value = errno;
      return -1;
    }
    hash.update({buffer.data(), static_cast<size_t>(count)});
    return count;
  }
};

// The same, decompressed: the tar's bytes, counted into the diff_id and against the budget.
struct TarBytes {
  ::archive* stored;
  Sha256 hash;
  int64_t left;  // a bomb ends here, whatever it says of itself
  bool too_large = false;
  bool broken = false;
  bool has_data = false;
  std::array<char, kReadBytes> buffer;

  ssize_t read(const void** bytes) {
    *bytes = buffer.data();
    if (!has_data) {
      return 0;
    }
    const la_ssize_t count = ::archive_read_data(stored, buffer.data(), buffer.size());
    if (count < 0) {
      broken = true;
      return -1;
    }
    left -= count;
    if (left < 0) {
      too_large = true;
      return -1;
    }
    hash.update({buffer.data(), static_cast<size_t>(count)});
    return count;
  }
};

la_ssize_t read_stored(::archive*, void* context, const void** bytes) {
  return static_cast<StoredBytes*>(context)->read(bytes);
}
la_ssize_t read_tar(::archive*, void* context, const void** bytes) {
  return static_cast<TarBytes*>(context)->read(bytes);
}

class ArchiveContent final : public Content {
 public:
  explicit ArchiveContent(::archive* archive) : archive_(archive) {}
  Result<std::optional<Piece>> next() override {
    const void* bytes = nullptr;
    size_t size = 0;
    la_int64_t offset = 0;
    const int status = ::archive_read_data_block(archive_, &bytes, &size, &offset);
    if (status == ARCHIVE_EOF) {
      return std::nullopt;
    }
    if (status < ARCHIVE_WARN) {
      return fail_image(kInvalid, "the archive is damaged: ", error_text(archive_));
    }
    return Piece{offset, {static_cast<const char*>(bytes), size}};
  }

 private:
  ::archive* archive_;
};

std::string text_or_empty(const char* text) { return text == nullptr ? "" : text; }

EntryKind kind_of(::archive_entry* entry) {
  if (::archive_entry_hardlink(entry) != nullptr) {
    return EntryKind::hardlink;
  }
  switch (::archive_entry_filetype(entry)) {
    case AE_IFDIR:
      return EntryKind::folder;
    case AE_IFLNK:
      return EntryKind::symlink;
    case AE_IFIFO:
      return EntryKind::fifo;
    case AE_IFREG:
      return EntryKind::file;
    default:
      return EntryKind::device;
  }
}

Result<Entry> read_entry(::archive_entry* from) {
  Entry entry;
  entry.path = text_or_empty(::archive_entry_pathname(from));
  if (entry.path.empty()) {
    return fail_image(kInvalid, "an entry of the archive has no readable name");
  }
  entry.kind = kind_of(from);
  entry.mode = static_cast<uint32_t>(::archive_entry_perm(from));
  entry.uid = ::archive_entry_uid(from);
  entry.gid = ::archive_entry_gid(from);
  entry.size = ::archive_entry_size(from);
  entry.modified = {.tv_sec = ::archive_entry_mtime(from),
                    .tv_nsec = ::archive_entry_mtime_nsec(from)};
  if (entry.kind == EntryKind::hardlink) {
    entry.target = text_or_empty(::archive_entry_hardlink(from));
  } else if (entry.kind == EntryKind::symlink) {
    entry.target = text_or_empty(::archive_entry_symlink(from));
  }
  ::archive_entry_xattr_reset(from);
  const char* name = nullptr;
  const void* value = nullptr;
  size_t size = 0;
  while (::archive_entry_xattr_next(from, &name, &value, &size) == ARCHIVE_OK) {
    entry.attributes.emplace_back(name, std::string(static_cast<const char*>(value), size));
  }
  return entry;
}

// What went wrong below libarchive, or else what it says.
std::unexpected<Error> read_failure(const StoredBytes& stored, const TarBytes& bytes,
                                    ::archive* outer, ::archive* tar) {
  if (stored.errno_value != 0) {
    return base::fail_errno(stored.errno_value, "read the archive");
  }
  if (bytes.too_large) {
    return fail_image(kInvalid, "the image is larger than allowed once unpacked");
  }
  return fail_image(kInvalid, "the archive is damaged: ", error_text(bytes.broken ? outer : tar));
}

// The outer reader only decompresses: it is told that the bytes are one raw entry.
Result<ArchivePointer> open_outer(StoredBytes& stored, TarBytes& bytes) {
  ArchivePointer outer(::archive_read_new());
  ::archive_read_support_filter_gzip(outer.get());
  ::archive_read_support_filter_zstd(outer.get());
  ::archive_read_support_format_raw(outer.get());
  ::archive_read_support_format_empty(outer.get());
  ::archive_entry* entry = nullptr;
  if (::archive_read_open(outer.get(), &stored, nullptr, read_stored, nullptr) != ARCHIVE_OK) {
    return read_failure(stored, bytes, outer.get(), outer.get());
  }
  const int status = ::archive_read_next_header(outer.get(), &entry);
  if (status != ARCHIVE_OK && status != ARCHIVE_EOF) {
    return read_failure(stored, bytes, outer.get(), outer.get());
  }
  bytes.stored = outer.get();
  bytes.has_data = status == ARCHIVE_OK;
  return outer;
}

}  // namespace

Result<ArchiveDigests> unpack_archive(int fd, LayerLimits& budget, LayerWriter& writer) {
  const auto stored = std::make_unique<StoredBytes>();
  stored->fd = fd;
  const auto bytes = std::make_unique<TarBytes>();
  // Headers and padding come on top of what the files hold: one block an entry and then some.
  constexpr int64_t kHeaderBytes = 4096;
  bytes->left = budget.bytes_max + budget.entries_max * kHeaderBytes;
  ASSIGN_OR_RETURN(const ArchivePointer outer, open_outer(*stored, *bytes));
  const ArchivePointer tar(::archive_read_new());
  ::archive_read_support_format_tar(tar.get());
  ::archive_read_support_format_empty(tar.get());
  if (::archive_read_open(tar.get(), bytes.get(), nullptr, read_tar, nullptr) != ARCHIVE_OK) {
    return read_failure(*stored, *bytes, outer.get(), tar.get());
  }
  ArchiveContent content(tar.get());
  while (true) {
    ::archive_entry* from = nullptr;
    const int status = ::archive_read_next_header(tar.get(), &from);
    if (status == ARCHIVE_EOF) {
      break;
    }
    if (status < ARCHIVE_WARN) {
      return read_failure(*stored, *bytes, outer.get(), tar.get());
    }
    ASSIGN_OR_RETURN(const Entry entry, read_entry(from));
    RETURN_IF_ERROR(writer.place(entry, content));
  }
  RETURN_IF_ERROR(writer.finish());
  // What stands behind the tar's end belongs to both digests.
  const void* rest = nullptr;
  ssize_t count = 1;
  while (count > 0) {
    count = bytes->read(&rest);
  }
  while (count == 0 && stored->read(&rest) > 0) {
  }
  if (count < 0 || stored->errno_value != 0) {
    return read_failure(*stored, *bytes, outer.get(), tar.get());
  }
  return ArchiveDigests{.blob = stored->hash.finish(), .content = bytes->hash.finish()};
}

void use_byte_names() { ::setlocale(LC_CTYPE, "C.UTF-8"); }

}  // namespace image
