#include "node/image_job.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/sys.h"
#include "jail/confined_process.h"
#include "model/image_reference.h"
#include "net/stream.h"

namespace node {
namespace {

namespace sys = base::sys;
using base::cat;
using base::Error;
using base::ErrorCode;
using wire::json::Array;
using wire::json::Object;
using Texts = std::vector<std::string>;

constexpr uint32_t kHelperIds = 65'536;  // those of images
constexpr size_t kLineBytesMax = 256 << 10;
constexpr base::Milliseconds kJobTimeMax{60 * 60 * 1000};
constexpr base::Milliseconds kJobSilenceMax{10 * 60 * 1000};  // a large layer is written silently
constexpr base::Milliseconds kAnswerPatience{10 * 1000};
constexpr int64_t kUnpackedBytesMax = int64_t{32} << 30;
constexpr int64_t kEntriesMax = 4'000'000;
constexpr size_t kLayersMax = 400;  // as the helper's own bound
constexpr size_t kPathBytesMax = 4095;
constexpr mode_t kModeMask = 07777;
constexpr size_t kMessageBytesMax = 2000;
constexpr std::string_view kPullFailed = "image_pull_failed";
constexpr std::string_view kRateLimited = "image_rate_limited";
constexpr std::array<std::string_view, 7> kReasons = {
    "image_not_found",         "image_pull_denied",     kPullFailed,    kRateLimited,
    "image_platform_mismatch", "image_digest_mismatch", "image_invalid"};

ErrorCode code_of(std::string_view reason) {
  if (reason == "image_not_found") {
    return ErrorCode::not_found;
  }
  if (reason == "image_pull_denied") {
    return ErrorCode::permission_denied;
  }
  const bool may_pass = reason == kPullFailed || reason == kRateLimited;
  return may_pass ? ErrorCode::unavailable : ErrorCode::archive_invalid;
}

Error failure(std::string reason, std::string message) {
  const ErrorCode code = code_of(reason);
  return Error{
      .code = code, .message = std::move(message), .details = {{"reason", std::move(reason)}}};
}

std::unexpected<Error> broken_record(std::string_view what) {
  return std::unexpected(
      failure(std::string(kPullFailed), cat("the image helper sent a broken ", what)));
}

// The helper's last word as an error of ours.
Error reported(const Object& message) {
  wire::json::Reader reader(message);
  const auto reason = reader.required<std::string>("reason");
  const auto text = reader.required<std::string>("message");
  if (!reason || !text || std::ranges::find(kReasons, *reason) == kReasons.end()) {
    return broken_record("failure").error();
  }
  return failure(*reason, text->substr(0, kMessageBytesMax));
}

// One line after the other off the helper's socket.
class LineReader {
 public:
  explicit LineReader(net::Stream& stream) : stream_(stream) {}
  net::Task<Result<std::string>> next(net::Deadline deadline) {
    while (true) {
      if (const size_t end = buffer_.find('\n', searched_); end != std::string::npos) {
        std::string line = buffer_.substr(0, end);
        buffer_.erase(0, end + 1);
        searched_ = 0;
        co_return line;
      }
      searched_ = buffer_.size();
      if (buffer_.size() > kLineBytesMax) {
        co_return broken_record("line: too long");
      }
      const auto count = co_await stream_.read_some(bytes_, deadline);
      if (!count) {
        co_return std::unexpected(count.error());
      }
      if (*count == 0) {
        co_return std::unexpected(
            failure(std::string(kPullFailed), "the image helper ended early"));
      }
      buffer_.append(bytes_.data(), *count);
    }
  }

 private:
  net::Stream& stream_;
  std::string buffer_;
  size_t searched_ = 0;
  std::array<char, 16 << 10> bytes_;
};

}  // namespace

net::Task<Result<void>> ImageJob::run() {
  auto work = store_.make_work_folder();
  if (!work) {
    co_return std::unexpected(failure(std::string(kPullFailed), work.error().message));
  }
  work_ = *work;
  auto result = co_await run_in(work_);
  release();
  store_.discard(work_);
  // Whatever ends a job has a reason for whoever waits for the image.
  if (!result && result.error().code != ErrorCode::cancelled &&
      std::ranges::none_of(result.error().details,
                           [](const auto& detail) { return detail.first == "reason"; })) {
    result.error().code = ErrorCode::unavailable;
    result = std::unexpected(std::move(result.error()).with("reason", std::string(kPullFailed)));
  }
  co_return result;
}

net::Task<Result<void>> ImageJob::run_in(const std::string& work) {
  auto process = jail::ConfinedProcess::start(
      {.program = options_.helper, .id_base = options_.id_base, .ids = kHelperIds});
  if (!process) {
    co_return std::unexpected(process.error());
  }
  CO_RETURN_IF_ERROR(send_request(*process, work));
  CO_RETURN_IF_ERROR(sys::set_nonblocking(process->control.get()));
  co_return co_await converse(std::move(process->control));
}

Result<void> ImageJob::send_request(const jail::ConfinedProcess& process, const std::string& work) {
  ASSIGN_OR_RETURN(const base::Fd mount, process.map_folder(work, true));
  base::Fd source;
  std::vector<int> descriptors = {mount.get()};
  if (request_.kind == "dir") {
    ASSIGN_OR_RETURN(source, process.map_folder(request_.folder, false));
    descriptors.push_back(source.get());
  } else if (request_.kind == "tar") {
    descriptors.push_back(request_.tar.get());
  }
  RETURN_IF_ERROR(sys::send_with_fds(process.control.get(), "d", descriptors));
  const Object message{{"kind", request_.kind},
                       {"reference", request_.reference},
                       {"mirror", request_.access.mirror},
                       {"plain_http", request_.access.plain_http},
                       {"username", request_.access.username},
                       {"password", request_.access.password.reveal()},  // over the socket only
                       {"bytes_max", kUnpackedBytesMax},
                       {"entries_max", kEntriesMax}};
  base::Secret line(wire::json::serialize(message) + "\n");
  return sys::write_all(process.control.get(), line.reveal());
}

net::Task<Result<void>> ImageJob::converse(base::Fd control) {
  net::Stream stream(loop_, std::move(control));
  LineReader lines(stream);
  const auto end = std::chrono::steady_clock::now() + kJobTimeMax;
  while (!done_) {
    const auto patience = std::chrono::steady_clock::now() + kJobSilenceMax;
    CO_ASSIGN_OR_RETURN(const std::string line,
                        co_await lines.next(net::Deadline::at(std::min(end, patience))));
    auto message = wire::json::parse_object(line);
    if (!message || !message->contains("t") || !message->at("t").is_string()) {
      co_return broken_record("record");
    }
    const std::string type(message->at("t").get_string());
    std::string reply;
    if (type == "progress") {
      CO_RETURN_IF_ERROR(note_progress(*message));
    } else if (type == "digest") {
      CO_ASSIGN_OR_RETURN(reply, answer_digest(*message));
    } else if (type == "layers") {
      CO_ASSIGN_OR_RETURN(reply, co_await answer_layers(std::move(*message)));
    } else if (type == "opaque") {
      CO_RETURN_IF_ERROR(mark_opaque(*message));
    } else if (type == "implied") {
      CO_RETURN_IF_ERROR(complete_implied(*message));
    } else if (type == "layer") {
      CO_RETURN_IF_ERROR(take_layer(*message));
    } else if (type == "done") {
      CO_RETURN_IF_ERROR(finish(*message));
    } else if (type == "failed") {
      co_return std::unexpected(reported(*message));
    } else {
      co_return broken_record("record of an unknown type");
    }
    if (!reply.empty()) {
      CO_RETURN_IF_ERROR(co_await stream.write_all(reply, kAnswerPatience));
    }
  }
  co_return Result<void>();
}

Result<void> ImageJob::note_progress(const Object& message) {
  wire::json::Reader reader(message);
  ASSIGN_OR_RETURN(const auto done, reader.required<int64_t>("done"));
  ASSIGN_OR_RETURN(const auto total, reader.required<int64_t>("total"));
  ASSIGN_OR_RETURN(const auto layers_done, reader.required<int64_t>("layers_done"));
  ASSIGN_OR_RETURN(const auto layers, reader.required<int64_t>("layers"));
  progress_.total_bytes = std::max<int64_t>(total, 0);
  progress_.done_bytes = std::clamp<int64_t>(done, 0, progress_.total_bytes);
  progress_.layers = std::clamp<int64_t>(layers, 0, kLayersMax);
  progress_.layers_done = std::clamp<int64_t>(layers_done, 0, progress_.layers);
  ASSIGN_OR_RETURN(const auto notice, reader.optional<std::string>("notice"));
  std::string text = notice.value_or("").substr(0, kMessageBytesMax);
  if (text != progress_.message) {
    progress_.reason = text.empty() ? "" : kRateLimited;
    progress_.message = std::move(text);
    changed_.notify();
  }
  return {};
}

// The registry has confirmed the digest with this access: an image of that digest is as good.
Result<std::string> ImageJob::answer_digest(const Object& message) {
  wire::json::Reader reader(message);
  ASSIGN_OR_RETURN(const auto digest, reader.required<std::string>("digest"));
  const StoredImage* same = store_.find_digest(digest);
  if (same == nullptr) {
    return "{\"known\":false}\n";
  }
  StoredImage image = *same;
  const StoredImage* named = store_.find(request_.name);
  if (named != nullptr && named->digest == digest) {
    image = *named;
  } else {
    image.proven.clear();
    image.with_credentials = true;
    image.source = "registry";
  }
  image.name = request_.name;
  image.last_used_ms = base::to_ms(clock_.wall());
  image.note_proven(request_.access);
  RETURN_IF_ERROR(store_.put(std::move(image)));
  done_ = true;
  return "{\"known\":true}\n";
}

// Every layer is laid out by one job at a time. A job claims all that it lacks in one step, so two
// jobs never wait for each other.
net::Task<Result<std::string>> ImageJob::answer_layers(Object message) {
  wire::json::Reader reader(message);
  CO_ASSIGN_OR_RETURN(auto diff_ids, reader.required<Texts>("diff_ids"));
  if (!diff_ids_.empty() || diff_ids.size() > kLayersMax ||
      !std::ranges::all_of(diff_ids, is_sha256_digest)) {
    co_return broken_record("list of layers");
  }
  diff_ids_ = std::move(diff_ids);
  store_.pin(diff_ids_);
  const auto is_claimed = [&](const std::string& id) { return claims_.claimed.contains(id); };
  while (std::ranges::any_of(diff_ids_, is_claimed)) {
    const auto wake = co_await claims_.changed.wait(net::Deadline::after(kJobTimeMax));
    if (wake != net::EventLoop::Wake::ready) {
      co_return std::unexpected(net::wake_error(wake, "wait for a layer"));
    }
  }
  Array answers;
  for (const auto& id : diff_ids_) {
    const bool is_missing = !store_.has_layer(id) && mine_.insert(id).second;
    missing_.push_back(is_missing);
    answers.push_back(is_missing);
  }
  claims_.claimed.insert(mine_.begin(), mine_.end());
  co_return wire::json::serialize(Object{{"missing", std::move(answers)}}) + "\n";
}

Result<std::string> ImageJob::layer_path(wire::json::Reader& reader, size_t& index) const {
  ASSIGN_OR_RETURN(const auto number, reader.required<int64_t>("layer"));
  if (number < 0 || static_cast<size_t>(number) >= missing_.size() ||
      !missing_[static_cast<size_t>(number)]) {
    return broken_record("layer number");
  }
  index = static_cast<size_t>(number);
  return cat(work_, "/layer-", number);
}

// The folder of a layer under way that the helper names; invalid where a later entry replaced it.
// The path is resolved beneath the layer without following anything.
Result<base::Fd> ImageJob::open_told_folder(const Object& message, size_t& index,
                                            std::string& path) const {
  wire::json::Reader reader(message);
  ASSIGN_OR_RETURN(const std::string layer, layer_path(reader, index));
  ASSIGN_OR_RETURN(const auto encoded, reader.required<std::string>("path"));
  const auto decoded = base::decode_base64(encoded);
  if (!decoded || decoded->size() > kPathBytesMax || decoded->contains('\0')) {
    return broken_record("path");
  }
  path = decoded->empty() ? "." : *decoded;
  ASSIGN_OR_RETURN(const base::Fd root, sys::open(layer, O_PATH | O_DIRECTORY | O_NOFOLLOW));
  auto folder = sys::open_beneath(root.get(), path, O_RDONLY | O_DIRECTORY);
  return folder ? std::move(*folder) : base::Fd();
}

// The mark is in the trusted namespace, which the helper has no right to.
Result<void> ImageJob::mark_opaque(const Object& message) {
  size_t index = 0;
  std::string path;
  ASSIGN_OR_RETURN(const base::Fd folder, open_told_folder(message, index, path));
  if (folder && ::fsetxattr(folder.get(), "trusted.overlay.opaque", "y", 1, 0) != 0) {
    return base::fail_errno(errno, "mark an opaque folder");
  }
  return {};
}

// A layer that does not describe a folder it puts something into must not change it: overlayfs
// shows the topmost owner and mode, so they are taken from the next layer below that has it.
Result<void> ImageJob::complete_implied(const Object& message) {
  size_t index = 0;
  std::string path;
  ASSIGN_OR_RETURN(const base::Fd folder, open_told_folder(message, index, path));
  for (size_t below = folder ? index : 0; below-- > 0;) {
    const auto root = sys::open(store_.layer_folder(diff_ids_[below]), O_PATH | O_DIRECTORY);
    const auto same = root ? sys::open_beneath(root->get(), path, O_RDONLY | O_DIRECTORY)
                           : Result<base::Fd>(std::unexpected(root.error()));
    struct stat info{};
    if (!same || ::fstat(same->get(), &info) != 0) {
      continue;
    }
    const timespec times[2] = {info.st_mtim, info.st_mtim};
    if (::fchown(folder.get(), info.st_uid, info.st_gid) != 0 ||
        ::fchmod(folder.get(), info.st_mode & kModeMask) != 0 ||
        ::futimens(folder.get(), times) != 0) {
      return base::fail_errno(errno, "owner and mode of a folder");
    }
    break;
  }
  return {};
}

Result<void> ImageJob::take_layer(const Object& message) {
  wire::json::Reader reader(message);
  size_t index = 0;
  ASSIGN_OR_RETURN(const std::string folder, layer_path(reader, index));
  ASSIGN_OR_RETURN(const auto bytes, reader.required<int64_t>("bytes"));
  struct stat info{};
  if (bytes < 0 || bytes > kUnpackedBytesMax || ::lstat(folder.c_str(), &info) != 0 ||
      !S_ISDIR(info.st_mode)) {
    return broken_record("layer");
  }
  const std::string& id = diff_ids_[index];
  RETURN_IF_ERROR(store_.add_layer(id, folder, bytes));
  missing_[index] = false;
  mine_.erase(id);
  claims_.claimed.erase(id);
  claims_.changed.notify();
  return {};
}

Result<void> ImageJob::finish(const Object& message) {
  wire::json::Reader reader(message);
  StoredImage image{.name = request_.name,
                    .source = request_.kind == "pull"               ? "registry"
                              : model::is_build_name(request_.name) ? "build"
                                                                    : "import",
                    .with_credentials = request_.kind == "pull"};
  ASSIGN_OR_RETURN(image.digest, reader.required<std::string>("digest"));
  ASSIGN_OR_RETURN(image.platform, reader.required<std::string>("platform"));
  ASSIGN_OR_RETURN(const auto diff_ids, reader.required<Texts>("diff_ids"));
  ASSIGN_OR_RETURN(const auto config, reader.required<Object>("config"));
  ASSIGN_OR_RETURN(image.config, parse_image_config(config));
  const auto is_here = [&](const std::string& id) { return store_.has_layer(id); };
  if (!is_sha256_digest(image.digest) || image.platform != "linux/amd64" || diff_ids != diff_ids_ ||
      !std::ranges::all_of(diff_ids, is_here)) {
    return broken_record("end");
  }
  for (const auto& id : diff_ids) {
    image.layers.push_back({.diff_id = id, .bytes = store_.layer_bytes(id)});
  }
  image.created_ms = base::to_ms(clock_.wall());
  image.last_used_ms = image.created_ms;
  image.note_proven(request_.access);
  progress_.layers_done = progress_.layers;
  RETURN_IF_ERROR(store_.put(std::move(image)));
  done_ = true;
  return {};
}

void ImageJob::release() {
  store_.unpin(diff_ids_);
  for (const auto& id : mine_) {
    claims_.claimed.erase(id);
  }
  claims_.changed.notify();
}

}  // namespace node
