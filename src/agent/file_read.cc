#include "agent/file_read.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>

#include "agent/acting_as.h"
#include "agent/byte_range.h"
#include "agent/file_item.h"
#include "agent/file_request.h"
#include "agent/listing.h"
#include "agent/open_path.h"
#include "agent/tar_send.h"
#include "base/sys.h"
#include "wire/entity_tag.h"

namespace agent {
namespace {

using net::Deadline;
using wire::http::HeadBuilder;

constexpr base::Milliseconds kWritePatience{600'000};
constexpr size_t kSliceBytes = size_t{1024} * 1024;
constexpr size_t kCopyBytes = size_t{256} * 1024;
// Files of /proc and /sys say they are empty; they are read whole up to this.
constexpr size_t kUnsizedBytesMax = size_t{1024} * 1024;

struct OpenedFile {
  base::Fd file;
  struct stat status{};
  std::string content;  // of a file that does not tell its size
  [[nodiscard]] uint64_t size() const {
    return content.empty() ? static_cast<uint64_t>(status.st_size) : content.size();
  }
};

// What is not a plain file is refused before it is opened: opening a device or a pipe acts on it.
Result<OpenedFile> open_file(const FileRequest& request) {
  const ActingAs acting(request.acting);
  OpenedFile opened;
  ASSIGN_OR_RETURN(const base::Fd place, open_path(AT_FDCWD, request.path, O_PATH));
  if (::fstat(place.get(), &opened.status) != 0) {
    return std::unexpected(file_error(errno, request.path));
  }
  if (S_ISDIR(opened.status.st_mode)) {
    return std::unexpected(file_error(EISDIR, request.path));
  }
  if (!S_ISREG(opened.status.st_mode)) {
    return std::unexpected(file_error(ENXIO, request.path));
  }
  ASSIGN_OR_RETURN(opened.file,
                   open_path(AT_FDCWD, request.path, O_RDONLY | O_NONBLOCK | O_NOCTTY));
  if (::fstat(opened.file.get(), &opened.status) != 0 || !S_ISREG(opened.status.st_mode)) {
    return std::unexpected(file_error(ENXIO, request.path));
  }
  if (opened.status.st_size == 0) {
    std::array<char, 4096> buffer;
    while (opened.content.size() < kUnsizedBytesMax) {
      const ssize_t count = ::read(opened.file.get(), buffer.data(), buffer.size());
      if (count <= 0) {
        break;
      }
      opened.content.append(buffer.data(), static_cast<size_t>(count));
    }
  }
  return opened;
}

std::string entity_tag(const struct stat& status) {
  return base::cat('"', static_cast<uint64_t>(status.st_ino), '-',
                   static_cast<uint64_t>(status.st_size), '-', status.st_mtim.tv_sec, '.',
                   status.st_mtim.tv_nsec, '-', status.st_ctim.tv_nsec, '"');
}

void add_metadata(HeadBuilder& head, const struct stat& status) {
  head.add("etag", entity_tag(status))
      .add("last-modified", http_date(status.st_mtim.tv_sec))
      .add("x-file-mode", octal_mode(status.st_mode))
      .add("x-file-owner", base::cat(status.st_uid, ":", status.st_gid));
}

net::Task<Result<void>> send_copied(net::Stream& client, int file, uint64_t begin, uint64_t size) {
  const auto buffer = std::make_unique_for_overwrite<char[]>(kCopyBytes);
  while (size > 0) {
    const auto wanted = static_cast<size_t>(std::min<uint64_t>(size, kCopyBytes));
    const ssize_t count = ::pread(file, buffer.get(), wanted, static_cast<off_t>(begin));
    if (count <= 0) {
      co_return base::fail(ErrorCode::connection_closed, "the file could not be read to its end");
    }
    const std::string_view bytes(buffer.get(), static_cast<size_t>(count));
    CO_RETURN_IF_ERROR(co_await client.write_all(bytes, kWritePatience));
    begin += bytes.size();
    size -= bytes.size();
  }
  co_return Result<void>{};
}

net::Task<Result<void>> send_file(net::Stream& client, int file, ByteRange range) {
  auto offset = static_cast<off_t>(range.begin);
  uint64_t left = range.size;
  while (left > 0) {
    const ssize_t count = ::sendfile(client.fd(), file, &offset,
                                     static_cast<size_t>(std::min<uint64_t>(left, kSliceBytes)));
    if (count > 0) {
      left -= static_cast<uint64_t>(count);
      continue;
    }
    if (count == 0) {
      // Shorter than announced: a clean end would look like the whole file.
      co_return base::fail(ErrorCode::connection_closed, "the file shrank while it was sent");
    }
    if (errno == EINVAL || errno == ENOSYS) {
      co_return co_await send_copied(client, file, static_cast<uint64_t>(offset), left);
    }
    if (errno != EAGAIN && errno != EINTR) {
      co_return base::fail(ErrorCode::connection_closed, "the file could not be sent");
    }
    const auto wake = co_await client.loop().wait(client.fd(), net::EventLoop::Direction::write,
                                                  Deadline::after(kWritePatience));
    if (wake != net::EventLoop::Wake::ready) {
      co_return std::unexpected(net::wake_error(wake, "send file"));
    }
  }
  co_return Result<void>{};
}

// The part asked for, if any; `tag` decides about If-Range.
Result<std::optional<ByteRange>> wanted_range(const wire::http::Request& request,
                                              const std::string& tag, uint64_t size) {
  const std::string* range = request.find("range");
  const std::string* condition = request.find("if-range");
  if (range == nullptr || (condition != nullptr && *condition != tag)) {
    return std::nullopt;
  }
  return parse_range(*range, size);
}

net::Task<Result<void>> write_item(net::Stream& client, const FileRequest& request,
                                   bool head_only) {
  const auto look = [&] {
    const ActingAs acting(request.acting);
    return item_at(request.path);
  };
  CO_ASSIGN_OR_RETURN(const std::string item, look());
  const std::string head = HeadBuilder::response(200)
                               .add("content-type", "application/json")
                               .add_length(item.size())
                               .finish();
  co_return co_await client.write_all(head, head_only ? "" : item, kWritePatience);
}

}  // namespace

net::Task<Result<void>> read_file(Agent& agent, net::Stream& client,
                                  const wire::http::Request& request) {
  CO_ASSIGN_OR_RETURN(const FileRequest wanted,
                      parse_file_request(agent, request, FileRoute::read));
  const bool head_only = request.method == "HEAD";
  if (wanted.list) {
    co_return co_await write_listing(client, wanted, head_only);
  }
  if (wanted.tar) {
    co_return co_await send_tar(client, wanted, head_only);
  }
  if (wanted.stat) {
    co_return co_await write_item(client, wanted, head_only);
  }
  CO_ASSIGN_OR_RETURN(const OpenedFile opened, open_file(wanted));
  const std::string tag = entity_tag(opened.status);
  const std::string* known = request.find("if-none-match");
  if (known != nullptr && wire::http::names_tag(*known, tag)) {
    HeadBuilder head = HeadBuilder::response(304);
    add_metadata(head, opened.status);
    co_return co_await client.write_all(head.finish(), kWritePatience);
  }
  CO_ASSIGN_OR_RETURN(const auto part, wanted_range(request, tag, opened.size()));
  const ByteRange range = part.value_or(ByteRange{.begin = 0, .size = opened.size()});
  HeadBuilder head = HeadBuilder::response(part ? 206 : 200);
  head.add("content-type", "application/octet-stream").add("accept-ranges", "bytes");
  if (part) {
    head.add("content-range", base::cat("bytes ", range.begin, "-", range.begin + range.size - 1,
                                        "/", opened.size()));
  }
  add_metadata(head, opened.status);
  const std::string text = head.add_length(range.size).finish();
  const bool from_memory = !opened.content.empty();
  const std::string_view content =
      std::string_view(opened.content).substr(from_memory ? range.begin : 0, range.size);
  CO_RETURN_IF_ERROR(co_await client.write_all(text, head_only ? "" : content, kWritePatience));
  if (head_only || from_memory) {
    co_return Result<void>{};
  }
  co_return co_await send_file(client, opened.file.get(), range);
}

}  // namespace agent
