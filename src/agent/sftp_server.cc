#include "agent/sftp_server.h"

#include <errno.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace agent::sftp {
namespace {

constexpr size_t kBufferBytes = 2 * (kPacketBytesMax + kLengthBytes);
// Answers are sent together up to about this size: two reads of the largest.
constexpr size_t kAnswerBytesEnough = kPacketBytesMax;
constexpr uint32_t kVersion = 3;

std::string_view text_of(Status status) {
  switch (status) {
    case Status::ok:
      return "Success";
    case Status::end_of_file:
      return "End of file";
    case Status::no_such_file:
      return "No such file";
    case Status::permission_denied:
      return "Permission denied";
    case Status::bad_message:
      return "Bad message";
    case Status::unsupported:
      return "Operation unsupported";
    case Status::failure:
      return "Failure";
  }
  return "Failure";
}

}  // namespace

const Server::Row Server::kCalls[] = {
    {Type::open, &Server::open_file},          {Type::close, &Server::close_handle},
    {Type::read, &Server::read_file},          {Type::write, &Server::write_file},
    {Type::lstat, &Server::stat_link},         {Type::fstat, &Server::stat_handle},
    {Type::setstat, &Server::set_path},        {Type::fsetstat, &Server::set_handle},
    {Type::opendir, &Server::open_folder},     {Type::readdir, &Server::read_folder},
    {Type::remove, &Server::remove_file},      {Type::mkdir, &Server::make_folder},
    {Type::rmdir, &Server::remove_folder},     {Type::realpath, &Server::resolve_path},
    {Type::stat, &Server::stat_path},          {Type::rename, &Server::rename},
    {Type::readlink, &Server::read_link},      {Type::symlink, &Server::make_symbolic_link},
    {Type::extended, &Server::call_extension},
};

const Server::Extension Server::kExtensions[] = {
    {"posix-rename@openssh.com", "1", &Server::rename_over},
    {"statvfs@openssh.com", "2", &Server::stat_file_system},
    {"fstatvfs@openssh.com", "2", &Server::stat_handles_file_system},
    {"hardlink@openssh.com", "1", &Server::make_hard_link},
    {"fsync@openssh.com", "1", &Server::sync_file},
    {"lsetstat@openssh.com", "1", &Server::set_link},
    {"limits@openssh.com", "1", &Server::tell_limits},
    {"expand-path@openssh.com", "1", &Server::expand_path},
    {"copy-data", "1", &Server::copy_data},
};

Server::Server(int input, int output)
    : input_(input),
      output_(output),
      buffer_(std::make_unique_for_overwrite<char[]>(kBufferBytes)) {}

int Server::serve() {
  do {
    if (!take_buffered() || !flush()) {
      return 1;
    }
  } while (read_more());
  return begin_ == end_ ? 0 : 1;
}

// All packets that are whole; false where what comes cannot be one.
bool Server::take_buffered() {
  for (;;) {
    const std::string_view waiting(buffer_.get() + begin_, end_ - begin_);
    if (waiting.size() < kLengthBytes) {
      return true;
    }
    const uint32_t length = packet_length(waiting);
    if (length == 0 || length > kPacketBytesMax) {
      return false;
    }
    if (waiting.size() - kLengthBytes < length) {
      return true;
    }
    begin_ += kLengthBytes + length;
    if (!take(waiting.substr(kLengthBytes, length)) ||
        (answers_.size() >= kAnswerBytesEnough && !flush())) {
      return false;
    }
  }
}

bool Server::read_more() {
  if (begin_ == end_ || kBufferBytes - begin_ < kPacketBytesMax + kLengthBytes) {
    std::memmove(buffer_.get(), buffer_.get() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  ssize_t count = 0;
  do {
    count = ::read(input_, buffer_.get() + end_, kBufferBytes - end_);
  } while (count < 0 && errno == EINTR);
  end_ += static_cast<size_t>(std::max<ssize_t>(count, 0));
  return count > 0;
}

bool Server::flush() {
  for (std::string_view rest = answers_; !rest.empty();) {
    const ssize_t count = ::write(output_, rest.data(), rest.size());
    if (count < 0 && errno != EINTR) {
      return false;
    }
    rest.remove_prefix(static_cast<size_t>(std::max<ssize_t>(count, 0)));
  }
  answers_.clear();
  return true;
}

bool Server::take(std::string_view packet) {
  PacketReader reader(packet);
  const auto type = static_cast<Type>(reader.number8());
  id_ = reader.number32();  // of the first packet: the client's version
  if (!reader.ok() || (type == Type::init) == greeted_) {
    return false;
  }
  if (!greeted_) {
    return answer_version();
  }
  const auto* row = std::ranges::find(kCalls, type, &Row::type);
  if (row == std::end(kCalls)) {
    answer_status(Status::unsupported);
  } else {
    (this->*row->call)(reader);
  }
  return true;
}

bool Server::answer_version() {
  greeted_ = true;
  out_.begin(Type::version).number32(kVersion);
  for (const Extension& extension : kExtensions) {
    out_.text(extension.name).text(extension.version);
  }
  out_.finish();
  return true;
}

void Server::call_extension(PacketReader& packet) {
  const std::string_view name = packet.text();
  const auto* row = std::ranges::find(kExtensions, name, &Extension::name);
  if (row == std::end(kExtensions)) {
    answer_status(Status::unsupported);
  } else {
    (this->*row->call)(packet);
  }
}

void Server::answer_status(Status status, std::string_view text) {
  out_.begin(Type::status).number32(id_).number32(static_cast<uint32_t>(status));
  out_.text(text.empty() ? text_of(status) : text).text("").finish();
}

void Server::answer_errno(int error) {
  const Status status = status_of(error);
  // "No space left on device" tells more than "Failure".
  answer_status(status, error == 0 ? std::string_view() : ::strerrordesc_np(error));
}

void Server::answer_result(int result) { answer_errno(result < 0 ? errno : 0); }

void Server::answer_attributes(int result, const struct stat& file) {
  if (result < 0) {
    answer_errno(errno);
    return;
  }
  out_.begin(Type::attributes).number32(id_).attributes(attributes_of(file)).finish();
}

void Server::answer_name(std::string_view name) {
  constexpr uint32_t kOneName = 1;
  out_.begin(Type::name).number32(id_).number32(kOneName);
  out_.text(name).text(name).attributes(Attributes{}).finish();
}

Handle* Server::find_handle(std::string_view name) {
  Handle* handle = handles_.find(name);
  if (handle == nullptr) {
    answer_status(Status::failure, "There is no such handle");
  }
  return handle;
}

void Server::tell_limits(PacketReader& /*packet*/) {
  out_.begin(Type::extended_reply).number32(id_).number64(kPacketBytesMax);
  out_.number64(kDataBytesMax).number64(kDataBytesMax).number64(handles_.limit()).finish();
}

}  // namespace agent::sftp
