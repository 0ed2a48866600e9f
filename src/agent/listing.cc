#include "agent/listing.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "agent/acting_as.h"
#include "agent/file_item.h"
#include "agent/folder_stack.h"
#include "agent/open_path.h"
#include "agent/run_answer.h"
#include "net/http.h"

namespace agent {
namespace {

constexpr base::Milliseconds kWritePatience{600'000};
constexpr size_t kSliceBytes = size_t{32} * 1024;

// Walks the tree depth first; each next() call runs as the acting user and does not suspend.
class Lister {
 public:
  explicit Lister(const FileRequest& request) : request_(request), folders_(request.path) {}

  Result<void> open() {
    const ActingAs acting(request_.acting);
    ASSIGN_OR_RETURN(auto folder,
                     open_path(AT_FDCWD, request_.path, O_RDONLY | O_DIRECTORY | O_NONBLOCK));
    return folders_.enter(std::move(folder), "");
  }
  // Appends entries until the slice is full; false when there are no more.
  bool next(std::string& out) {
    const ActingAs acting(request_.acting);
    while (!folders_.empty() && out.size() < kSliceBytes) {
      const dirent* entry = folders_.next();
      if (entry == nullptr) {
        folders_.leave();
        continue;
      }
      append_entry(out, static_cast<const char*>(entry->d_name));
    }
    return !folders_.empty();
  }

 private:
  void append_entry(std::string& out, const std::string& name) {
    struct stat status{};
    if (::fstatat(folders_.folder(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
      return;  // gone since it was read
    }
    out += first_ ? "" : ",";
    first_ = false;
    append_item(out, folders_.folder(), name, folders_.path_of(name), status);
    if (S_ISDIR(status.st_mode) && folders_.depth() < static_cast<size_t>(request_.depth)) {
      // One that may not be read is shown as an entry only.
      [[maybe_unused]] const auto entered = folders_.enter(name.c_str());
    }
  }

  const FileRequest& request_;
  FolderStack folders_;
  bool first_ = true;
};

}  // namespace

net::Task<Result<void>> write_listing(net::Stream& client, FileRequest request, bool head_only) {
  Lister lister(request);
  CO_RETURN_IF_ERROR(lister.open());
  const std::string head = chunked_answer_head();
  CO_RETURN_IF_ERROR(co_await client.write_all(head, kWritePatience));
  if (head_only) {
    co_return Result<void>{};
  }
  net::HttpWriter writer(client, kWritePatience);
  std::string text = "{\"items\":[";
  while (lister.next(text)) {
    CO_RETURN_IF_ERROR(co_await writer.write_chunk(text));
    text.clear();
  }
  text += "]}";
  CO_RETURN_IF_ERROR(co_await writer.write_chunk(text));
  co_return co_await writer.finish_chunks();
}

}  // namespace agent
