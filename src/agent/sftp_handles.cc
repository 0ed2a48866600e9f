#include "agent/sftp_handles.h"

#include <errno.h>
#include <sys/resource.h>

#include <algorithm>

#include "agent/sftp_packet.h"

namespace agent::sftp {
namespace {

// Input, output, errors, and what a call opens for its own length.
constexpr rlim_t kOtherDescriptors = 16;

size_t descriptor_limit() {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur <= kOtherDescriptors) {
    return 1;
  }
  return std::min<rlim_t>(Handles::kHandlesMax, files.rlim_cur - kOtherDescriptors);
}

}  // namespace

Handles::Handles() : limit_(descriptor_limit()) {}

std::string Handles::add(Handle handle) {
  ++open_;
  folders_ += handle.folder ? 1 : 0;
  auto place = std::ranges::find_if_not(handles_, &Handle::is_open);
  if (place == handles_.end()) {
    place = handles_.emplace(place);
  }
  *place = std::move(handle);
  std::string name;
  PacketWriter(name).number32(static_cast<uint32_t>(place - handles_.begin()));
  return name;
}

Handle* Handles::find(std::string_view name) {
  PacketReader reader(name);
  const uint32_t index = reader.number32();
  if (!reader.ok() || name.size() != sizeof index || index >= handles_.size() ||
      !handles_[index].is_open()) {
    return nullptr;
  }
  return &handles_[index];
}

int Handles::close(std::string_view name) {
  Handle* handle = find(name);
  if (handle == nullptr) {
    return EBADF;
  }
  --open_;
  folders_ -= handle->folder ? 1 : 0;
  // A file's close may tell of bytes that could not be written.
  const int result =
      handle->folder ? ::closedir(handle->folder.release()) : ::close(handle->file.release());
  return result == 0 ? 0 : errno;
}

}  // namespace agent::sftp
