// One file being replaced: a temporary file in the target's own folder that takes its place at the
// end, or vanishes. Synchronous calls, made by the request's coroutine; loop thread only. What may
// be written is decided with the acting user's rights, the replacing is the agent's.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

#include "agent/file_request.h"
#include "base/fd.h"

namespace agent {

class Upload {
 public:
  // Makes missing parents, follows links at the end, checks rights and kind of the target.
  // `size_hint`: the announced length, to refuse early what cannot fit; 0: unknown.
  static Result<Upload> begin(const FileRequest& request, uint64_t size_hint);
  Upload(Upload&& other) noexcept = default;
  Upload& operator=(Upload&&) = delete;
  ~Upload();

  Result<void> write(std::string_view bytes);
  // Owner, mode and name: from here on readers see the new file.
  Result<void> commit();

 private:
  Upload() = default;
  struct Target {
    base::Fd folder;
    std::string name;
  };
  static Result<Target> find_target(const FileRequest& request);
  static Result<void> check_target(const FileRequest& request, const Target& target,
                                   Upload& upload);
  Result<void> make_temporary();

  std::string path_;  // as asked for, for errors
  Target target_;
  std::string temporary_;  // its name; empty once renamed
  base::Fd file_;
  uid_t owner_ = 0;
  gid_t group_ = 0;
  mode_t mode_ = 0;
};

}  // namespace agent
