#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/sys.h"
#include "cli/context.h"
#include "cli/copy_folder.h"

namespace cli {

using base::ErrorCode;
using base::fail;

namespace {

constexpr mode_t kPermissionBits = 0777;
constexpr mode_t kModeWithoutAnswer = 0644;
constexpr std::string_view kNeedsRecursive = " is a folder: sandbox cp -r copies it";

std::string octal(mode_t mode) {
  char digits[16];
  const auto end = std::to_chars(std::begin(digits), std::end(digits), mode, 8);
  return base::cat("0", std::string_view(digits, end.ptr));
}

Result<int> upload(Context& context, const CopyPlan& plan, const CopyOptions& options) {
  HttpRequest request{.method = "PUT", .target = copy_target(plan, options)};
  base::Fd file;
  std::string mode = options.mode;
  request.body_fd = STDIN_FILENO;
  if (plan.local != "-") {
    ASSIGN_OR_RETURN(file, base::sys::open(plan.local, O_RDONLY));
    struct stat status{};
    if (::fstat(file.get(), &status) != 0) {
      return base::fail_errno(errno, "look at ", plan.local);
    }
    if (S_ISDIR(status.st_mode)) {
      return fail(ErrorCode::is_a_directory, plan.local, kNeedsRecursive);
    }
    request.body_fd = file.get();
    if (S_ISREG(status.st_mode)) {
      request.body_size = static_cast<uint64_t>(status.st_size);
      mode = mode.empty() ? octal(status.st_mode & kPermissionBits) : mode;
    }
  }
  if (!mode.empty()) {
    request.target += "&mode=" + encode_segment(mode);
  }
  Progress progress(context.console, context.clock);
  const auto observer = [&](const TransferCounts& counts) {
    progress.show(base::cat("uploading ", base_name(plan.remote.path), ", ",
                            describe_bytes(counts.sent, counts.send_total)));
  };
  RETURN_IF_ERROR(context.api.call(request, Repeat::no, {}, observer));
  return 0;
}

// A download's place: a temporary file that becomes the destination at the end, or whatever the
// destination already is (a device, a pipe, standard output). Gone when not finished.
class Destination {
 public:
  Destination(Context& context, std::string path) : context_(context), path_(std::move(path)) {}
  Destination(const Destination&) = delete;
  Destination& operator=(const Destination&) = delete;
  ~Destination() {
    if (!temporary_.empty()) {
      ::unlink(temporary_.c_str());
    }
  }

  Result<void> open() {
    if (path_ == "-") {
      return {};
    }
    struct stat status{};
    const bool exists = ::stat(path_.c_str(), &status) == 0;
    if (exists && !S_ISREG(status.st_mode)) {
      ASSIGN_OR_RETURN(file_, base::sys::open(path_, O_WRONLY));
      return {};
    }
    old_mode_ = exists ? status.st_mode & kPermissionBits : 0;
    const size_t slash = path_.rfind('/');
    const std::string folder = slash == path_.npos ? "" : path_.substr(0, slash + 1);
    std::string name = base::cat(folder, ".", base_name(path_), ".XXXXXX");
    file_ = base::Fd(::mkostemp(name.data(), O_CLOEXEC));
    if (!file_) {
      return base::fail_errno(errno, "make a temporary file beside ", path_);
    }
    temporary_ = name;
    return {};
  }

  Result<void> write(std::string_view bytes) {
    return file_ ? base::sys::write_all(file_.get(), bytes) : context_.console.write_out(bytes);
  }

  // `new_mode` is for a file that was not there before.
  Result<void> finish(mode_t new_mode, bool mode_given) {
    if (temporary_.empty()) {
      return {};
    }
    const mode_t mode = old_mode_ != 0 && !mode_given ? old_mode_ : new_mode;
    if (::fchmod(file_.get(), mode) != 0) {
      return base::fail_errno(errno, "set the mode of ", path_);
    }
    if (::rename(temporary_.c_str(), path_.c_str()) != 0) {
      return base::fail_errno(errno, "put ", path_, " into place");
    }
    temporary_.clear();
    return {};
  }

 private:
  Context& context_;
  std::string path_;
  std::string temporary_;
  base::Fd file_;
  mode_t old_mode_ = 0;
};

std::string local_destination(const CopyPlan& plan) {
  struct stat status{};
  if (plan.local != "-" && ::stat(plan.local.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) {
    return base::cat(plan.local, plan.local.ends_with('/') ? "" : "/", base_name(plan.remote.path));
  }
  return plan.local;
}

// What a new file here gets: the source's permissions as the umask allows.
mode_t mode_of(const HttpResponse& response) {
  const std::string* sent = response.find("x-file-mode");
  const auto mode = sent == nullptr ? std::nullopt : base::parse_number<mode_t>(*sent, 8);
  const mode_t mask = ::umask(0);
  ::umask(mask);
  return mode.value_or(kModeWithoutAnswer) & kPermissionBits & ~mask;
}

Result<int> download(Context& context, const CopyPlan& plan, const CopyOptions& options) {
  Destination destination(context, local_destination(plan));
  RETURN_IF_ERROR(destination.open());
  HttpRequest request{.target = copy_target(plan, options)};
  Progress progress(context.console, context.clock);
  const auto sink = [&](const HttpResponse&, std::string_view bytes) {
    return destination.write(bytes);
  };
  const auto observer = [&](const TransferCounts& counts) {
    progress.show(base::cat("downloading ", base_name(plan.remote.path), ", ",
                            describe_bytes(counts.received, counts.receive_total)));
  };
  // Not repeated: a part may already be written.
  auto response = context.api.call(request, Repeat::no, sink, observer);
  if (!response) {
    if (response.error().code == ErrorCode::is_a_directory) {
      response.error().message = base::cat(plan.remote.path, kNeedsRecursive);
    }
    return std::unexpected(std::move(response).error());
  }
  mode_t mode = mode_of(*response);
  if (!options.mode.empty()) {
    mode = base::parse_number<mode_t>(options.mode, 8).value_or(mode);
  }
  RETURN_IF_ERROR(destination.finish(mode, !options.mode.empty()));
  return 0;
}

}  // namespace

Result<int> copy(Context& context, const CopyOptions& options) {
  const auto mode = base::parse_number<mode_t>(options.mode, 8);
  constexpr mode_t kModeMax = 07777;
  if (!options.mode.empty() && (!mode || *mode > kModeMax)) {
    return base::fail_field("mode", "'", options.mode, "' is not an octal mode like 0755");
  }
  const auto kind = options.recursive ? CopyKind::folder : CopyKind::file;
  ASSIGN_OR_RETURN(auto plan, plan_copy(options.source, options.destination, kind));
  if (!options.recursive) {
    return plan.upload ? upload(context, plan, options) : download(context, plan, options);
  }
  if (!options.mode.empty()) {
    return base::fail_field("mode", "--mode is for a single file; -r takes the files' own modes");
  }
  if (plan.upload) {
    struct stat status{};
    const bool is_file =
        plan.local != "-" && ::stat(plan.local.c_str(), &status) == 0 && !S_ISDIR(status.st_mode);
    return is_file ? upload(context, plan, options) : upload_folder(context, plan, options);
  }
  auto outcome = download_folder(context, plan, options);
  const bool is_file = !outcome && outcome.error().code == ErrorCode::not_a_directory;
  return is_file ? download(context, plan, options) : outcome;
}

}  // namespace cli
