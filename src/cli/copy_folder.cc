#include "cli/copy_folder.h"

#include <archive.h>
#include <locale.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/folder_reader.h"
#include "cli/folder_writer.h"

namespace cli {

using base::ErrorCode;
using base::fail;

namespace {

// A large tree is unpacked there while nothing is sent either way.
constexpr int kUnpackSilenceSeconds = 600;

struct FreeArchive {
  void operator()(::archive* archive) const { ::archive_read_free(archive); }
};

void tell_left_out(Context& context, int64_t count) {
  if (count > 0) {
    context.console.note(
        base::cat(count,
                  " pipes, sockets or devices were left out: only files, folders and links "
                  "are copied"));
  }
}

bool is_compressed(const Context& context, const CopyOptions& options) {
  return options.compress.value_or(!is_loopback_url(context.http.url()));
}

// The body of an answer, pulled by libarchive piece by piece.
class PulledBody {
 public:
  PulledBody(Context& context, HttpRequest request, std::function<void(int64_t)> observer)
      : context_(context),
        http_(context.http.endpoint(), context.interrupt),
        observer_(std::move(observer)) {
    http_.begin(std::move(request), [this](const HttpResponse&, std::string_view bytes) {
      arrived_ += bytes;
      return Result<void>{};
    });
  }

  static la_ssize_t read(::archive*, void* user, const void** bytes) {
    return static_cast<PulledBody*>(user)->pull(bytes);
  }

  // Reads what is left and says whether the answer was whole.
  Result<void> finish() {
    const void* unused = nullptr;
    while (pull(&unused) > 0) {
    }
    return outcome_;
  }
  [[nodiscard]] const Result<void>& outcome() const { return outcome_; }

 private:
  la_ssize_t pull(const void** bytes) {
    given_.clear();
    while (arrived_.empty() && http_.busy() && outcome_) {
      outcome_ = wait();
    }
    if (!outcome_) {
      http_.abandon();
      return -1;
    }
    std::swap(given_, arrived_);
    total_ += static_cast<int64_t>(given_.size());
    observer_(total_);
    *bytes = given_.data();
    return static_cast<la_ssize_t>(given_.size());
  }

  Result<void> wait() {
    std::vector<pollfd> waits{{context_.interrupt.fd(), POLLIN, 0}};
    const int timeout = http_.add_waits(waits);
    ::poll(waits.data(), waits.size(), timeout);
    RETURN_IF_ERROR(context_.interrupt.check());
    auto end = http_.step();
    if (!end) {
      return {};
    }
    if (!*end) {
      return std::unexpected(std::move(*end).error());
    }
    const bool good = (*end)->status / 100 == 2;
    return good ? Result<void>{} : std::unexpected(parse_error_answer(**end));
  }

  Context& context_;
  HttpClient http_;
  std::function<void(int64_t)> observer_;
  std::string arrived_;
  std::string given_;
  int64_t total_ = 0;
  Result<void> outcome_;
};

Result<int> download_stream(Context& context, const HttpRequest& request) {
  RETURN_IF_ERROR(
      context.api.call(request, Repeat::no, [&](const HttpResponse&, std::string_view bytes) {
        return context.console.write_out(bytes);
      }));
  return 0;
}

std::string local_folder(const CopyPlan& plan) {
  struct stat status{};
  const bool is_folder = ::stat(plan.local.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
  const std::string name = folder_name(plan.remote.path);
  return is_folder && !name.empty() ? base::cat(plan.local, "/", name) : plan.local;
}

}  // namespace

std::string copy_target(const CopyPlan& plan, const CopyOptions& options) {
  std::string query;
  add_parameter(query, "path", plan.remote.path);
  if (!options.user.empty()) {
    add_parameter(query, "user", options.user);
  }
  return sandbox_target({.id = plan.remote.id, .container = options.container}, "/files?" + query);
}

Result<int> upload_folder(Context& context, const CopyPlan& plan, const CopyOptions& options) {
  HttpRequest request{.method = "PUT",
                      .target = copy_target(plan, options) + "&tar=1",
                      .headers = {{"Content-Type", "application/x-tar"}},
                      .silence_seconds_max = kUnpackSilenceSeconds};
  std::unique_ptr<FolderReader> reader;
  if (plan.local == "-") {
    request.body_fd = STDIN_FILENO;
  } else {
    const bool is_packed = is_compressed(context, options);
    ASSIGN_OR_RETURN(reader,
                     FolderReader::open(plan.local, is_packed ? Packing::zstd : Packing::plain));
    if (is_packed) {
      request.headers.emplace_back("Content-Encoding", "zstd");
    }
    request.body_source = [&](std::span<char> buffer) { return reader->read(buffer); };
  }
  const std::string name = base_name(plan.remote.path);
  Progress progress(context.console, context.clock);
  RETURN_IF_ERROR(context.api.call(request, Repeat::no, {}, [&](const TransferCounts& counts) {
    progress.show(base::cat("uploading ", name, ", ", format_bytes(counts.sent)));
  }));
  if (reader != nullptr) {
    tell_left_out(context, reader->left_out());
  }
  return 0;
}

Result<int> download_folder(Context& context, const CopyPlan& plan, const CopyOptions& options) {
  HttpRequest request{.target = copy_target(plan, options) + "&tar=1",
                      .accepts_coded = is_compressed(context, options)};
  if (plan.local == "-") {
    return download_stream(context, request);
  }
  ::setlocale(LC_CTYPE, "C.UTF-8");  // names are bytes; this is how libarchive gives them as such
  Progress progress(context.console, context.clock);
  const std::string name = base_name(plan.remote.path);
  PulledBody body(context, std::move(request), [&](int64_t bytes) {
    progress.show(base::cat("downloading ", name, ", ", format_bytes(bytes)));
  });
  const std::unique_ptr<::archive, FreeArchive> tar(::archive_read_new());
  ::archive_read_support_format_tar(tar.get());
  ::archive_read_support_format_empty(tar.get());
  if (::archive_read_open(tar.get(), &body, nullptr, PulledBody::read, nullptr) != ARCHIVE_OK) {
    RETURN_IF_ERROR(body.outcome());
    return fail(ErrorCode::archive_invalid, "the answer is no tar archive");
  }
  // Only now, so that a refused download makes no folder.
  ASSIGN_OR_RETURN(auto writer, FolderWriter::open(local_folder(plan)));
  const auto taken = writer.take_all(tar.get());
  RETURN_IF_ERROR(body.outcome());  // says more than the archive that broke off
  RETURN_IF_ERROR(taken);
  RETURN_IF_ERROR(body.finish());
  tell_left_out(context, writer.left_out());
  return 0;
}

}  // namespace cli
