// The SFTP server that the agent's binary is as a helper (api/agent-protocol.md "Helpers"): version
// 3 with OpenSSH's extensions, on two descriptors, as the user and in the folder that it was
// started with. One thread, plain blocking calls; the client is hostile, but has no more rights
// than this process. Bounds: one packet of input and half a megabyte of answers in memory, the
// handles of sftp_handles.h. A client that breaks the protocol is left; one that does not read its
// answers is waited for.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "agent/sftp_attributes.h"
#include "agent/sftp_handles.h"
#include "agent/sftp_packet.h"

namespace agent::sftp {

class Server {
 public:
  Server(int input, int output);

  // To the end of input. Exit status: 0, or 1 where the conversation broke off.
  int serve();
  // One packet without its length: answers it into answers(). False: it was no packet at all.
  bool take(std::string_view packet);
  [[nodiscard]] std::string& answers() { return answers_; }

 private:
  // Each reads its fields and answers once; what it leaves unread does not matter.
  using Call = void (Server::*)(PacketReader& packet);
  struct Row {
    Type type;
    Call call;
  };
  struct Extension {
    std::string_view name;
    std::string_view version;
    Call call;
  };
  static const Row kCalls[];
  static const Extension kExtensions[];

  bool take_buffered();
  bool read_more();
  bool flush();

  bool answer_version();
  void answer_status(Status status, std::string_view text = {});
  // The status of an errno, 0 included.
  void answer_errno(int error);
  void answer_result(int result);
  void answer_attributes(int result, const struct stat& file);
  void answer_name(std::string_view name);
  // Answers that it is unknown where it is.
  Handle* find_handle(std::string_view name);

  // sftp_server_files.cc
  void open_file(PacketReader& packet);
  void close_handle(PacketReader& packet);
  void read_file(PacketReader& packet);
  void write_file(PacketReader& packet);
  void stat_handle(PacketReader& packet);
  void set_handle(PacketReader& packet);
  void open_folder(PacketReader& packet);
  void read_folder(PacketReader& packet);
  void sync_file(PacketReader& packet);
  void copy_data(PacketReader& packet);
  // sftp_server_paths.cc
  void stat_path(PacketReader& packet);
  void stat_link(PacketReader& packet);
  void set_path(PacketReader& packet);
  void set_link(PacketReader& packet);
  void remove_file(PacketReader& packet);
  void make_folder(PacketReader& packet);
  void remove_folder(PacketReader& packet);
  void resolve_path(PacketReader& packet);
  void expand_path(PacketReader& packet);
  void rename(PacketReader& packet);
  void rename_over(PacketReader& packet);
  void read_link(PacketReader& packet);
  void make_symbolic_link(PacketReader& packet);
  void make_hard_link(PacketReader& packet);
  void stat_file_system(PacketReader& packet);
  void stat_handles_file_system(PacketReader& packet);
  void tell_limits(PacketReader& packet);
  void call_extension(PacketReader& packet);
  void change_path(PacketReader& packet, Links links);
  void answer_resolved(const std::string& path);

  int input_;
  int output_;
  uint32_t id_ = 0;  // of the request that is being answered
  bool greeted_ = false;
  std::unique_ptr<char[]> buffer_;
  size_t begin_ = 0;  // of what is not taken yet
  size_t end_ = 0;
  std::string answers_;
  PacketWriter out_{answers_};
  Handles handles_;
  LongNames long_names_;
};

}  // namespace agent::sftp
