#include "agent/scp_receive.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <vector>

#include "base/fd.h"

namespace agent::scp {
namespace {

// Deeper trees are refused: nobody has them, and each level is held.
constexpr size_t kDepthMax = 1024;

std::string errno_text(const std::string& path, int error) {
  return base::cat(path, ": ", ::strerrordesc_np(error));
}

std::array<timespec, 2> timespecs(const Times& times) {
  return {timespec{.tv_sec = times.accessed_at, .tv_nsec = 0},
          timespec{.tv_sec = times.modified_at, .tv_nsec = 0}};
}

bool is_folder(const std::string& path) {
  struct stat file{};
  return ::stat(path.c_str(), &file) == 0 && S_ISDIR(file.st_mode);
}

// A folder that is being filled.
struct Level {
  std::string path;
  std::optional<uint32_t> mode;  // to be set at its end
  std::optional<Times> times;
};

class Receiver {
 public:
  Receiver(Peer& peer, const Options& options, const std::string& target)
      : peer_(peer), options_(options), target_(target), target_is_folder_(is_folder(target)) {}

  void run() {
    if (options_.needs_folder && !target_is_folder_) {
      struct stat file{};
      const bool is_there = ::stat(target_.c_str(), &file) == 0;
      peer_.complain(errno_text(target_, is_there ? ENOTDIR : errno));
      return;
    }
    peer_.acknowledge();
    std::string line;
    while (peer_.read_line(line)) {
      const auto message = parse_message(line);
      if (!message) {
        peer_.complain(message.error().message);
        return;
      }
      if (!take(*message)) {
        return;
      }
    }
  }

 private:
  // False: the conversation is over.
  bool take(const Message& message) {
    switch (message.kind) {
      case Message::Kind::warning:
        peer_.note_error();
        return true;
      case Message::Kind::fatal:
        peer_.note_error();
        return false;
      case Message::Kind::times:
        times_ = message.times;
        return peer_.acknowledge();
      case Message::Kind::end_of_folder:
        return end_folder();
      case Message::Kind::folder:
        return begin_folder(message);
      case Message::Kind::file:
        take_file(message, std::exchange(times_, std::nullopt));
        return !peer_.is_lost();
    }
    return false;
  }

  [[nodiscard]] std::string path_of(const std::string& name) const {
    if (!levels_.empty()) {
      return base::cat(levels_.back().path, "/", name);
    }
    return target_is_folder_ ? base::cat(target_, target_.ends_with('/') ? "" : "/", name)
                             : target_;
  }

  bool begin_folder(const Message& message) {
    if (!options_.recursive || levels_.size() == kDepthMax) {
      peer_.complain(options_.recursive ? "the folders are nested too deeply"
                                        : "received a folder without -r");
      return false;
    }
    Level level{.path = path_of(message.name), .mode = {}, .times = times_};
    times_.reset();
    struct stat file{};
    if (::stat(level.path.c_str(), &file) == 0) {
      if (!S_ISDIR(file.st_mode)) {
        peer_.complain(errno_text(level.path, ENOTDIR));
        return true;
      }
      if (options_.keep_times) {
        level.mode = message.mode;
      }
    } else {
      // Its owner must be able to fill it.
      if (::mkdir(level.path.c_str(), message.mode | S_IRWXU) != 0) {
        peer_.complain(errno_text(level.path, errno));
        return true;
      }
      if (options_.keep_times || (message.mode & S_IRWXU) != S_IRWXU) {
        level.mode = options_.keep_times ? message.mode : message.mode & ~mask();
      }
    }
    levels_.push_back(std::move(level));
    return peer_.acknowledge();
  }

  bool end_folder() {
    if (levels_.empty()) {
      peer_.complain("protocol error: the end of a folder that was not begun");
      return false;
    }
    const Level level = std::move(levels_.back());
    levels_.pop_back();
    int error = 0;
    if (level.times &&
        ::utimensat(AT_FDCWD, level.path.c_str(), timespecs(*level.times).data(), 0) != 0) {
      error = errno;
    }
    if (level.mode && ::chmod(level.path.c_str(), *level.mode) != 0) {
      error = errno;
    }
    if (error != 0) {
      peer_.complain(errno_text(level.path, error));
      return true;
    }
    return peer_.acknowledge();
  }

  static mode_t mask() {
    const mode_t mask = ::umask(0);
    ::umask(mask);
    return mask;
  }

  // The bytes of a file; what cannot be written is read nevertheless. errno, or 0.
  int take_bytes(int file, uint64_t size) {
    int error = 0;
    while (size > 0) {
      std::string_view bytes = peer_.read_some(size);
      if (bytes.empty()) {
        return ECONNRESET;
      }
      size -= bytes.size();
      while (!bytes.empty() && error == 0) {
        const ssize_t count = ::write(file, bytes.data(), bytes.size());
        if (count > 0) {
          bytes.remove_prefix(static_cast<size_t>(count));
        } else if (errno != EINTR) {
          error = errno;
        }
      }
    }
    return error;
  }

  // What is left to do when all bytes are there. errno, or 0.
  int finish_file(int file, const Message& message, bool is_new,
                  const std::optional<Times>& times) const {
    struct stat state{};
    if (::fstat(file, &state) != 0) {
      return errno;
    }
    // An old file is cut only now, so that it is never shorter than it has to be.
    if (S_ISREG(state.st_mode) && ::ftruncate(file, static_cast<off_t>(message.size)) != 0) {
      return errno;
    }
    const bool has_other_mode = (state.st_mode & 07777) != message.mode;
    if (options_.keep_times ? has_other_mode : is_new && (message.mode & S_IWUSR) == 0) {
      const mode_t mode = options_.keep_times ? message.mode : message.mode & ~mask();
      if (::fchmod(file, mode) != 0) {
        return errno;
      }
    }
    return times && ::futimens(file, timespecs(*times).data()) != 0 ? errno : 0;
  }

  void take_file(const Message& message, const std::optional<Times>& times) {
    const std::string path = path_of(message.name);
    struct stat before{};
    const bool is_new = ::stat(path.c_str(), &before) != 0;
    // A FIFO that nobody reads must not hold the conversation up.
    constexpr int kFlags = O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
    base::Fd file(::open(path.c_str(), kFlags, message.mode | S_IWUSR));
    if (!file) {
      peer_.complain(errno_text(path, errno));
      return;
    }
    peer_.acknowledge();
    int error = take_bytes(file.get(), message.size);
    if (peer_.is_lost()) {
      return;
    }
    peer_.is_acknowledged();
    error = error != 0 ? error : finish_file(file.get(), message, is_new, times);
    if (::close(file.release()) != 0 && error == 0) {
      error = errno;
    }
    if (error != 0) {
      peer_.complain(errno_text(path, error));
    } else {
      peer_.acknowledge();
    }
  }

  Peer& peer_;
  const Options& options_;
  const std::string& target_;
  bool target_is_folder_;
  std::vector<Level> levels_;
  std::optional<Times> times_;  // of the next file or folder
};

}  // namespace

void receive(Peer& peer, const Options& options, const std::string& target) {
  Receiver(peer, options, target).run();
}

}  // namespace agent::scp
