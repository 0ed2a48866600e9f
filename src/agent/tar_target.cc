#include "agent/tar_target.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "agent/merge_folder.h"
#include "agent/open_path.h"
#include "base/random.h"

namespace agent {
namespace {

constexpr mode_t kImpliedFolderMode = 0755;
constexpr mode_t kHiddenFolderMode = 0700;
constexpr mode_t kFillableMode = 0700;  // what a folder needs while it is filled
constexpr mode_t kPermissions = 07777;
constexpr mode_t kWithoutSetId = 01777;
constexpr int kAgainMax = 100;  // openat2 says EAGAIN while something is renamed

}  // namespace

bool TarTarget::is_beneath(std::string_view path, std::string_view folder) {
  return path == folder ||
         (path.starts_with(folder) && path.substr(folder.size()).starts_with('/'));
}

// Last access is the moment of the upload.
std::array<timespec, 2> TarTarget::file_times(wire::tar::Time modified) {
  return {timespec{.tv_sec = 0, .tv_nsec = UTIME_NOW},
          timespec{.tv_sec = modified.seconds, .tv_nsec = modified.nanoseconds}};
}

TarTarget::TarTarget(const FileRequest& request) : request_(request), small_files_(request.acting) {
  base::KernelRandom random;
  temporary_base_ = base::new_id(random, ".upload");
}

std::unexpected<base::Error> TarTarget::failed(int errno_value) const {
  if (errno_value == EXDEV || errno_value == ELOOP) {
    return refused("it leads out of the target through a link");
  }
  base::Error error = file_error(errno_value, request_.path);
  if (!member_.empty()) {
    error.message = base::cat("the archive's member '", member_, "' in ", error.message);
    error.details.emplace_back("member", member_);
  }
  return std::unexpected(std::move(error));
}

std::unexpected<base::Error> TarTarget::refused(std::string_view why) const {
  return std::unexpected(
      base::Error{.code = ErrorCode::archive_invalid,
                  .message = base::cat("the archive's member '", member_, "' is refused: ", why),
                  .details = {{"member", member_}}});
}

std::string TarTarget::temporary_name() { return base::cat(temporary_base_, "-", ++temporaries_); }

mode_t TarTarget::allowed_mode(uint32_t mode) const {
  return mode & (request_.acting.uid == 0 ? kPermissions : kWithoutSetId);
}

// --- Finding places ---------------------------------------------------------------------------

Result<void> TarTarget::open() {
  std::string path = request_.path;
  while (path.size() > 1 && path.ends_with('/')) {
    path.pop_back();
  }
  auto found = open_path(AT_FDCWD, path, O_PATH | O_DIRECTORY);
  if (found) {
    root_ = std::move(*found);
    return {};
  }
  if (found.error().code != ErrorCode::file_not_found) {
    return std::unexpected(std::move(found).error());
  }
  const SplitPath split = split_path(path);
  Stage stage{.name = split.name, .temporary = temporary_name()};
  ASSIGN_OR_RETURN(stage.folder, open_or_make_folder(AT_FDCWD, split.folder));
  struct stat status{};
  if (split.name == "." || split.name == ".." ||
      ::fstatat(stage.folder.get(), split.name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0) {
    return std::unexpected(file_error(ENOTDIR, request_.path));  // a link to nowhere
  }
  if (::mkdirat(stage.folder.get(), stage.temporary.c_str(), kHiddenFolderMode) != 0) {
    return std::unexpected(file_error(errno, request_.path));
  }
  ASSIGN_OR_RETURN(root_, open_path(stage.folder.get(), stage.temporary, O_PATH | O_DIRECTORY));
  root_stage_ = std::move(stage);
  late_.push_back({.path = "",
                   .mode = kImpliedFolderMode,
                   .uid = request_.acting.uid,
                   .gid = request_.acting.gid});
  return {};
}

// Where a path of the archive lies now.
std::string TarTarget::actual(const std::string& path) const {
  if (stage_ && is_beneath(path, stage_->name)) {
    return stage_->temporary + path.substr(stage_->name.size());
  }
  return path.empty() ? "." : path;
}

bool TarTarget::is_staged(const std::string& path) const {
  return root_stage_ || (stage_ && is_beneath(path, stage_->name));
}

Result<base::Fd> TarTarget::open_beneath(const std::string& path, int flags,
                                         uint64_t resolve) const {
  open_how how{};
  how.flags = static_cast<uint64_t>(flags | O_CLOEXEC);
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | resolve;
  const std::string place = actual(path);
  for (int again = 0;; ++again) {
    base::Fd file(
        static_cast<int>(::syscall(SYS_openat2, root_.get(), place.c_str(), &how, sizeof how)));
    if (file) {
      return file;
    }
    if (errno != EINTR && (errno != EAGAIN || again == kAgainMax)) {
      return failed(errno);
    }
  }
}

// The folder that `path` lies in, made if it is missing. Most members lie beside the one before.
Result<int> TarTarget::parent_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) {
    return root_.get();
  }
  const std::string parent = path.substr(0, slash);
  if (place_.folder && place_.path == parent) {
    return place_.folder.get();
  }
  auto opened = open_beneath(parent, O_PATH | O_DIRECTORY);
  if (!opened && opened.error().code == ErrorCode::file_not_found) {
    opened = make_parents(parent);
  }
  if (!opened) {
    return std::unexpected(std::move(opened).error());
  }
  place_ = {.path = parent, .folder = std::move(*opened)};
  return place_.folder.get();
}

Result<base::Fd> TarTarget::make_parents(const std::string& path) {
  for (size_t end = path.find('/');; end = path.find('/', end + 1)) {
    const std::string part = path.substr(0, end);
    auto opened = open_beneath(part, O_PATH | O_DIRECTORY);
    if (!opened && opened.error().code == ErrorCode::file_not_found) {
      RETURN_IF_ERROR(make_folder(part, {.path = part,
                                         .mode = kImpliedFolderMode,
                                         .uid = request_.acting.uid,
                                         .gid = request_.acting.gid}));
      opened = open_beneath(part, O_PATH | O_DIRECTORY);
    }
    if (!opened || end == std::string::npos) {
      return opened;
    }
  }
}

// One that is not there yet, whose parent is.
Result<void> TarTarget::make_folder(const std::string& path, const LateFolder& late) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos && !root_stage_) {
    RETURN_IF_ERROR(begin_stage(path));
  } else {
    base::Fd parent;
    if (slash != std::string::npos) {
      ASSIGN_OR_RETURN(parent, open_beneath(path.substr(0, slash), O_PATH | O_DIRECTORY));
    }
    const int folder = parent ? parent.get() : root_.get();
    const std::string name = path.substr(slash == std::string::npos ? 0 : slash + 1);
    if (::mkdirat(folder, name.c_str(), allowed_mode(late.mode) | kFillableMode) != 0) {
      return failed(errno);
    }
  }
  if (late_.size() == kLateFoldersMax) {
    RETURN_IF_ERROR(apply_late(""));
  }
  late_.push_back(late);
  ++counts_.folders;
  return {};
}

// --- New folders --------------------------------------------------------------------------------

Result<void> TarTarget::begin_stage(const std::string& name) {
  RETURN_IF_ERROR(finish_new_folder());
  Stage stage{.name = name, .temporary = temporary_name()};
  if (::mkdirat(root_.get(), stage.temporary.c_str(), kHiddenFolderMode) != 0) {
    return failed(errno);
  }
  stage_ = std::move(stage);
  return {};
}

Result<void> TarTarget::finish_new_folder() {
  if (!stage_) {
    return {};
  }
  RETURN_IF_ERROR(apply_late(stage_->name));
  Stage stage = std::move(*stage_);
  stage_.reset();
  return finish_stage(stage, root_.get());
}

Result<void> TarTarget::finish_stage(Stage& stage, int folder) {
  RETURN_IF_ERROR(wait_for_small_files());
  if (::renameat2(folder, stage.temporary.c_str(), folder, stage.name.c_str(), RENAME_NOREPLACE) ==
      0) {
    return {};
  }
  if (errno != EEXIST) {
    return std::unexpected(file_error(errno, stage.name));
  }
  // Somebody made it meanwhile, perhaps another upload: the two become one.
  auto merged = merge_folder(folder, stage.temporary, folder, stage.name);
  if (!merged) {
    // Nothing is lost: the rest stays under the hidden name.
    merged.error().details.emplace_back("kept_as", stage.temporary);
  }
  return merged;
}

// Modes and times of the folders at and beneath `beneath`, the deepest first: filling a folder
// changes its time, and one that may not be written could not be filled.
Result<void> TarTarget::apply_late(const std::string& beneath) {
  const auto is_other = [&](const LateFolder& late) {
    return !beneath.empty() && !is_beneath(late.path, beneath);
  };
  for (auto late = late_.rbegin(); late != late_.rend(); ++late) {
    if (is_other(*late)) {
      continue;
    }
    auto folder = open_beneath(late->path, O_RDONLY | O_DIRECTORY | O_NONBLOCK);
    if (!folder) {
      if (folder.error().code == ErrorCode::file_not_found) {
        continue;  // removed meanwhile by a process of the sandbox
      }
      return std::unexpected(std::move(folder).error());
    }
    RETURN_IF_ERROR(set_owner(folder->get(), late->uid, late->gid));
    const auto times = file_times(late->modified.value_or(wire::tar::Time{}));
    if (::fchmod(folder->get(), allowed_mode(late->mode)) != 0 ||
        (late->modified && ::futimens(folder->get(), times.data()) != 0)) {
      return failed(errno);
    }
  }
  std::erase_if(late_, [&](const LateFolder& late) { return !is_other(late); });
  return {};
}

Result<void> TarTarget::finish() {
  member_.clear();
  RETURN_IF_ERROR(finish_new_folder());
  RETURN_IF_ERROR(apply_late(""));
  if (root_stage_) {
    Stage stage = std::move(*root_stage_);
    root_stage_.reset();
    return finish_stage(stage, stage.folder.get());
  }
  return {};
}

void TarTarget::settle() { [[maybe_unused]] const auto told = wait_for_small_files(); }

void TarTarget::abandon() {
  settle();
  if (small_file_) {
    remove_unwritten(*std::exchange(small_file_, std::nullopt));
  }
  if (file_ && naming_ != Naming::unnamed) {
    const std::string& name = naming_ == Naming::direct ? name_ : temporary_;
    ::unlinkat(folder_, name.c_str(), 0);
  }
  file_.reset();
  if (root_stage_ && placed_.empty() &&
      ::unlinkat(root_stage_->folder.get(), root_stage_->temporary.c_str(), AT_REMOVEDIR) == 0) {
    return;
  }
  if (root_) {
    [[maybe_unused]] const auto shown = finish();
  }
}

Result<void> place_members(wire::tar::Reader& reader, std::string_view bytes, TarTarget& target) {
  using Found = wire::tar::Reader::Found;
  for (;;) {
    ASSIGN_OR_RETURN(const auto step, reader.next(bytes));
    bytes.remove_prefix(step.consumed);
    switch (step.found) {
      case Found::entry:
        RETURN_IF_ERROR(target.begin(reader.entry()));
        break;
      case Found::data:
        RETURN_IF_ERROR(target.write(step.offset, step.data));
        break;
      case Found::entry_end:
        RETURN_IF_ERROR(target.end(reader.entry()));
        break;
      case Found::archive_end:
        break;
      case Found::more_input:
        return {};
    }
  }
}

}  // namespace agent
