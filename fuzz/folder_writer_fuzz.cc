// A hostile archive laid out in a folder of this machine: nothing beside the folder changes, and
// nothing in it is setuid, a device or a pipe.
#include <archive.h>
#include <ftw.h>
#include <locale.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <cstdint>
#include <memory>
#include <string>

#include "base/sys.h"
#include "cli/folder_writer.h"

namespace {

constexpr int kOpenFoldersMax = 16;
constexpr mode_t kModeBits = 0777;

// In memory where it can be: a run makes and removes a tree.
std::string make_ground() {
  std::string name = "/dev/shm/folder-writer-fuzz-XXXXXX";
  if (::mkdtemp(name.data()) == nullptr || !base::sys::replace_file(name + "/canary", "c", 0640)) {
    std::abort();
  }
  return name;
}

int check_entry(const char* /*path*/, const struct stat* status, int /*kind*/, FTW* /*where*/) {
  const bool is_known =
      S_ISREG(status->st_mode) || S_ISDIR(status->st_mode) || S_ISLNK(status->st_mode);
  if (!is_known || (!S_ISLNK(status->st_mode) &&
                    (status->st_mode & ~static_cast<mode_t>(S_IFMT) & ~kModeBits) != 0)) {
    std::abort();
  }
  return 0;
}

void check_outside(const std::string& ground) {
  const auto names = base::sys::list_folder(ground);
  struct stat status{};
  if (!names || names->size() != 2 || ::stat((ground + "/canary").c_str(), &status) != 0 ||
      (status.st_mode & ~static_cast<mode_t>(S_IFMT)) != 0640 || status.st_nlink != 1 ||
      base::sys::read_file(ground + "/canary", 16) != "c") {
    std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::string ground = make_ground();
  ::setlocale(LC_CTYPE, "C.UTF-8");
  const std::unique_ptr<::archive, int (*)(::archive*)> tar(::archive_read_new(),
                                                            ::archive_read_free);
  ::archive_read_support_format_tar(tar.get());
  ::archive_read_support_format_empty(tar.get());
  if (::archive_read_open_memory(tar.get(), data, size) != ARCHIVE_OK) {
    return 0;
  }
  const std::string target = ground + "/to";
  {
    auto writer = cli::FolderWriter::open(target);
    if (!writer) {
      std::abort();
    }
    (void)writer->take_all(tar.get());
  }
  check_outside(ground);
  ::nftw(target.c_str(), check_entry, kOpenFoldersMax, FTW_PHYS);
  if (!base::sys::remove_tree(target)) {
    std::abort();
  }
  return 0;
}
