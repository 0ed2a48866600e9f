#include "image/skopeo.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/sys.h"
#include "image/manifest.h"

namespace image {
namespace {

namespace sys = base::sys;

constexpr int kTickMilliseconds = 250;  // how often progress is looked at
constexpr size_t kOutputBytesMax = 64 << 10;
constexpr size_t kSentenceBytesMax = 400;
constexpr size_t kNoticeBytesMax = 4 << 10;  // more than its longest line about a wait
constexpr const char* kRetries = "2";        // waits 1 and 2 s before them
constexpr std::array kKeptVariables = {"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY",
                                       "http_proxy", "https_proxy", "no_proxy"};

std::vector<std::string> environment() {
  std::vector<std::string> out = {"PATH=/usr/bin:/bin:/usr/sbin:/sbin", "HOME=/run",
                                  "XDG_RUNTIME_DIR=/run", "TMPDIR=/job/tmp"};
  for (const char* name : kKeptVariables) {
    if (const char* value = ::getenv(name); value != nullptr) {
      out.push_back(cat(name, "=", value));
    }
  }
  return out;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  out.reserve(texts.size() + 1);
  for (auto& text : texts) {
    out.push_back(text.data());
  }
  out.push_back(nullptr);
  return out;
}

// A file of this program's own to collect a stream in.
Result<base::Fd> memory_file(const char* name) {
  base::Fd fd(::memfd_create(name, MFD_CLOEXEC));
  if (!fd) {
    return base::fail_errno(errno, "memfd_create");
  }
  return fd;
}

// The end of what a stream collected so far.
std::string read_tail(const base::Fd& fd, size_t bytes_max) {
  struct stat info{};
  if (::fstat(fd.get(), &info) != 0) {
    return "";
  }
  const auto size = static_cast<size_t>(info.st_size);
  std::string tail(std::min(size, bytes_max), '\0');
  const ssize_t count =
      ::pread(fd.get(), tail.data(), tail.size(), static_cast<off_t>(size - tail.size()));
  tail.resize(count < 0 ? 0 : static_cast<size_t>(count));
  return tail;
}

Result<std::string> read_from_start(const base::Fd& fd, size_t bytes_max) {
  if (::lseek(fd.get(), 0, SEEK_SET) < 0) {
    return base::fail_errno(errno, "lseek");
  }
  return sys::read_all(fd.get(), bytes_max);
}

// Starts the program with real ids `uid`; the child takes them over before it executes, and with
// them loses every capability.
Result<pid_t> spawn(std::vector<std::string> arguments, uid_t uid, int out, int err) {
  auto variables = environment();
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawnattr_init(&attributes);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, err, STDERR_FILENO);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_RESETIDS);
  pid_t pid = -1;
  int failed = 0;
  if (::setresgid(uid, 0, 0) != 0 || ::setresuid(uid, 0, 0) != 0) {
    failed = errno;
  } else {
    failed = ::posix_spawnp(&pid, arguments[0].c_str(), &actions, &attributes,
                            pointers(arguments).data(), pointers(variables).data());
  }
  if (::setresuid(0, 0, 0) != 0 || ::setresgid(0, 0, 0) != 0) {
    ::abort();  // it was root a moment ago
  }
  ::posix_spawn_file_actions_destroy(&actions);
  ::posix_spawnattr_destroy(&attributes);
  if (failed != 0) {
    return fail_image(kPullFailed, "skopeo cannot be started: ", ::strerror(failed));
  }
  return pid;
}

int wait_for(pid_t pid, const base::Fd& err, const OnTick& on_tick) {
  const base::Fd handle(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  pollfd poll_for{.fd = handle.get(), .events = POLLIN};
  while (handle && ::poll(&poll_for, 1, kTickMilliseconds) <= 0) {
    on_tick(notice_in(read_tail(err, kNoticeBytesMax)));
  }
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

Result<std::string> run_skopeo(const RegistrySource& source, std::vector<std::string> command,
                               std::string_view what, const OnTick& on_tick) {
  // Its debug output is the only place where it says that a registry makes it wait.
  std::vector<std::string> arguments = {"skopeo",
                                        "--debug",
                                        "--insecure-policy",
                                        "--override-os",
                                        "linux",
                                        "--override-arch",
                                        "amd64",
                                        "--tmpdir",
                                        "/job/tmp",
                                        "--registries.d",
                                        "/etc/containers/registries.d"};
  arguments.insert(arguments.end(), command.begin(), command.end());
  ASSIGN_OR_RETURN(const base::Fd out, memory_file("skopeo-out"));
  ASSIGN_OR_RETURN(const base::Fd err, memory_file("skopeo-err"));
  const auto host = std::string_view(source.repository).substr(0, source.repository.find('/'));
  const uid_t uid = is_loopback(host) ? kFetchUid : kFetchAwayFromLoopbackUid;
  if (!source.auth_file.empty() && ::chown(source.auth_file.c_str(), uid, uid) != 0) {
    return base::fail_errno(errno, "chown of the credentials");
  }
  ASSIGN_OR_RETURN(const pid_t pid, spawn(std::move(arguments), uid, out.get(), err.get()));
  const int status = wait_for(pid, err, on_tick);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    return std::unexpected(explain_failure(read_tail(err, kOutputBytesMax), what));
  }
  return read_from_start(out, kManifestBytesMax);
}

std::vector<std::string> access_flags(const RegistrySource& source, std::string_view prefix) {
  return {source.auth_file.empty() ? cat("--", prefix, "no-creds")
                                   : cat("--authfile=", source.auth_file),
          cat("--", prefix, "tls-verify=", source.plain_http ? "false" : "true")};
}

const char* retries(const RegistrySource& source) { return source.is_mirror ? "0" : kRetries; }

bool contains_any(std::string_view text, std::initializer_list<std::string_view> parts) {
  for (const auto part : parts) {
    if (text.contains(part)) {
      return true;
    }
  }
  return false;
}

// The text of the last line's msg="...", without its quoting.
std::string last_message(std::string_view output) {
  const size_t fatal = output.rfind("level=fatal");
  const std::string_view tail = fatal == std::string_view::npos ? output : output.substr(fatal);
  const size_t begin = tail.find("msg=\"");
  std::string out;
  bool escaped = false;
  for (const char c : begin == std::string_view::npos ? tail : tail.substr(begin + 5)) {
    if (!escaped && (c == '"' || c == '\n')) {
      break;
    }
    escaped = !escaped && c == '\\';
    if (!escaped && out.size() < kSentenceBytesMax) {
      out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
    }
  }
  // Its opening words name the image once more.
  constexpr std::string_view kOpening = "Error parsing image name \"";
  if (const size_t end = out.find("\": "); out.starts_with(kOpening) && end != std::string::npos) {
    out.erase(0, end + 3);
  }
  return out;
}

}  // namespace

bool is_loopback(std::string_view host) {
  return host == "localhost" || host.starts_with("localhost:") || host.starts_with("127.") ||
         host.starts_with("[::1]") || host == "0" || host.starts_with("0:") ||
         host.starts_with("0.0.0.0") || host.starts_with("[::]") || host.contains(".localhost");
}

bool is_link_local(std::string_view host) {
  return host.starts_with("169.254.") || base::lower(host.substr(0, 5)) == "[fe80";
}

Result<std::string> fetch_manifest(const RegistrySource& source, const std::string& version,
                                   const OnTick& on_tick) {
  std::vector<std::string> command = {"inspect", "--raw", "--retry-times", retries(source)};
  for (auto& flag : access_flags(source, "")) {
    command.push_back(std::move(flag));
  }
  const std::string name = cat(source.repository, version);
  command.push_back(cat("docker://", name));
  return run_skopeo(source, std::move(command), name, on_tick);
}

Result<void> fetch_blobs(const RegistrySource& source, const std::string& digest,
                         const std::string& folder, const OnTick& on_tick) {
  std::vector<std::string> command = {"copy", "--quiet", "--retry-times", retries(source)};
  for (auto& flag : access_flags(source, "src-")) {
    command.push_back(std::move(flag));
  }
  const std::string name = cat(source.repository, "@", digest);
  command.push_back(cat("docker://", name));
  command.push_back(cat("dir:", folder));
  RETURN_IF_ERROR(run_skopeo(source, std::move(command), name, on_tick));
  return {};
}

std::string notice_in(std::string_view output) {
  constexpr std::string_view kWaits = "Too many requests to ";
  constexpr std::string_view kPause = ": sleeping for ";
  output = output.substr(0, output.find_last_not_of('\n') + 1);
  const size_t begin = output.rfind('\n');
  const std::string_view line = begin == std::string_view::npos ? output : output.substr(begin + 1);
  const size_t pause = line.find(kPause);
  if (!line.contains(kWaits) || pause == std::string_view::npos) {
    return "";
  }
  const std::string_view rest = line.substr(pause + kPause.size());
  const std::string_view seconds = rest.substr(0, rest.find_first_not_of("0123456789"));
  return cat("the registry limits the rate of requests (429): next try after ", seconds, " s");
}

Error explain_failure(std::string_view output, std::string_view what) {
  const std::string message = last_message(output);
  const std::string text = base::lower(message);
  std::string_view reason = kPullFailed;
  std::string_view sentence = "cannot be fetched";
  if (contains_any(text, {"toomanyrequests", "too many requests", "status code 429"})) {
    reason = kRateLimited;
    sentence = "is not given now: the registry limits the rate of requests (429)";
  } else if (contains_any(text, {"unauthorized", "authentication required", "access denied",
                                 "invalid username/password", "status code 401", "status code 403",
                                 "401 unauthorized", "403 forbidden",
                                 "denied:", "access to the resource is denied"})) {
    reason = kPullDenied;
    sentence = "is refused by the registry (unauthorized)";
  } else if (contains_any(text, {"manifest unknown", "name unknown", "not known to registry",
                                 "status code 404", "404 (not found)", "404 not found",
                                 "blob unknown", "not found: manifest"})) {
    reason = kNotFound;
    sentence = "is not in the registry";
  } else if (contains_any(text, {"digest did not match", "does not match provided manifest digest",
                                 "digest mismatch", "digests did not match"})) {
    reason = kDigestMismatch;
    sentence = "does not match its digest";
  } else if (contains_any(text, {"no image found in", "choosing an image from manifest list"})) {
    reason = kPlatformMismatch;
    sentence = "has no image for linux/amd64";
  } else if (contains_any(text, {"unsupported docker v2s2 media type", "unsupported media type",
                                 "unknown mime type", "unsupported schema"})) {
    reason = kInvalid;
    sentence = "has an unsupported media type";
  }
  return Error{.code = ErrorCode::archive_invalid,
               .message = cat("image ", what, " ", sentence, ": ", message),
               .details = {{"reason", std::string(reason)}}};
}

}  // namespace image
