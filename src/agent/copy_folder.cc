#include "agent/copy_folder.h"

#include "agent/acting_as.h"
#include "agent/tar_source.h"
#include "agent/tar_target.h"

namespace agent {
namespace {

class Copy {
 public:
  Copy(const FileRequest& from, const FileRequest& to)
      : acting_(to.acting), source_(from), target_(to) {}
  Copy(const Copy&) = delete;
  Copy& operator=(const Copy&) = delete;
  ~Copy() {
    if (opened_ && !finished_) {
      const ActingAs acting(acting_);
      target_.abandon();
    }
  }

  Result<void> open() {
    RETURN_IF_ERROR(source_.open());
    const ActingAs acting(acting_);
    opened_ = true;
    return target_.open();
  }
  // False at the end.
  Result<bool> next() {
    slice_.clear();
    ASSIGN_OR_RETURN(const bool more, source_.next(slice_));
    if (source_.left_something_out()) {
      return base::fail(ErrorCode::not_supported,
                        "a folder with a pipe, socket or device cannot be moved to there");
    }
    const ActingAs acting(acting_);
    RETURN_IF_ERROR(place_members(reader_, slice_, target_));
    if (!more) {
      RETURN_IF_ERROR(target_.finish());
      finished_ = true;
    }
    return more;
  }

 private:
  const Identity& acting_;
  TarSource source_;
  TarTarget target_;
  wire::tar::Reader reader_;
  std::string slice_;
  bool opened_ = false;
  bool finished_ = false;
};

}  // namespace

net::Task<Result<void>> copy_folder(net::EventLoop& loop, const FileRequest& from, FileRequest to) {
  to.preserve_owner = to.acting.uid == 0;
  Copy copy(from, to);
  const auto opened = copy.open();
  if (!opened && opened.error().code == ErrorCode::not_a_directory) {
    co_return base::fail(ErrorCode::not_supported,
                         "a file cannot be moved to another file system; copy it");
  }
  CO_RETURN_IF_ERROR(opened);
  for (bool more = true; more;) {
    CO_ASSIGN_OR_RETURN(more, copy.next());
    co_await loop.yield();
  }
  co_return Result<void>{};
}

}  // namespace agent
