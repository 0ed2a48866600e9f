#include "agent/scp_send.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "base/fd.h"

namespace agent::scp {
namespace {

constexpr size_t kBufferBytes = size_t{256} * 1024;
constexpr mode_t kModeBits = 07777;
// Each level is a folder that is open; a link back to its own parent ends here too.
constexpr size_t kDepthMax = 256;

std::string_view last_name(std::string_view path) {
  while (path.size() > 1 && path.ends_with('/')) {
    path.remove_suffix(1);
  }
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos || path.size() == 1 ? path : path.substr(slash + 1);
}

class Sender {
 public:
  Sender(Peer& peer, const Options& options)
      : peer_(peer),
        options_(options),
        buffer_(std::make_unique_for_overwrite<char[]>(kBufferBytes)) {}

  void send(const std::string& path, size_t depth) {
    // What is no file must not hold the conversation up.
    constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
    base::Fd file(::open(path.c_str(), kFlags));
    struct stat state{};
    if (!file || ::fstat(file.get(), &state) != 0) {
      complain(path, ::strerrordesc_np(errno));
      return;
    }
    if (S_ISDIR(state.st_mode) && options_.recursive) {
      depth == kDepthMax ? complain(path, "the folders are nested too deeply")
                         : send_folder(path, std::move(file), state, depth);
    } else if (S_ISREG(state.st_mode)) {
      send_file(path, file.get(), state);
    } else {
      complain(path, "not a regular file");
    }
  }

 private:
  void complain(const std::string& path, std::string_view why) {
    peer_.complain(base::cat(path, ": ", why));
  }

  // The line of a file or a folder, with its times before it: whether the peer wants it.
  bool announce(const struct stat& state, const std::string& line) {
    if (options_.keep_times) {
      const Times times{.modified_at = std::max<int64_t>(state.st_mtime, 0),
                        .accessed_at = std::max<int64_t>(state.st_atime, 0)};
      if (!peer_.write(times_line(times)) || !peer_.is_acknowledged()) {
        return false;
      }
    }
    return peer_.write(line) && peer_.is_acknowledged();
  }

  void send_file(const std::string& path, int file, const struct stat& state) {
    const auto size = static_cast<uint64_t>(state.st_size);
    if (!announce(state, file_line(state.st_mode & kModeBits, size, last_name(path)))) {
      return;
    }
    if (const int error = send_bytes(file, size)) {
      complain(path, ::strerrordesc_np(error));
    } else {
      peer_.acknowledge();
    }
    peer_.is_acknowledged();
  }

  // So many bytes as were announced, whatever became of the file since. errno, or 0.
  int send_bytes(int file, uint64_t size) {
    int error = 0;
    while (size > 0 && !peer_.is_lost()) {
      const size_t wanted = std::min<uint64_t>(size, kBufferBytes);
      ssize_t count = error == 0 ? ::read(file, buffer_.get(), wanted) : 0;
      if (count < 0 && errno == EINTR) {
        continue;
      }
      if (count <= 0) {
        error = error != 0 ? error : count < 0 ? errno : EIO;
        std::memset(buffer_.get(), 0, wanted);
        count = static_cast<ssize_t>(wanted);
      }
      peer_.write({buffer_.get(), static_cast<size_t>(count)});
      size -= static_cast<uint64_t>(count);
    }
    return error;
  }

  void send_folder(const std::string& path, base::Fd file, const struct stat& state, size_t depth) {
    const auto close = [](DIR* open) { ::closedir(open); };
    const std::unique_ptr<DIR, decltype(close)> folder(::fdopendir(file.get()));
    if (!folder) {
      complain(path, ::strerrordesc_np(errno));
      return;
    }
    (void)file.release();
    if (!announce(state, folder_line(state.st_mode & kModeBits, last_name(path)))) {
      return;
    }
    while (const dirent* entry = peer_.is_lost() ? nullptr : ::readdir(folder.get())) {
      const std::string_view name = entry->d_name;
      if (name != "." && name != "..") {
        send(base::cat(path, path.ends_with('/') ? "" : "/", name), depth + 1);
      }
    }
    peer_.write("E\n");
    peer_.is_acknowledged();
  }

  Peer& peer_;
  const Options& options_;
  std::unique_ptr<char[]> buffer_;
};

}  // namespace

void send(Peer& peer, const Options& options, const std::vector<std::string>& paths) {
  peer.is_acknowledged();  // it is ready
  Sender sender(peer, options);
  for (const std::string& path : paths) {
    if (peer.is_lost()) {
      return;
    }
    sender.send(path, 0);
  }
}

}  // namespace agent::scp
