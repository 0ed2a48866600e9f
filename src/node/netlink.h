// Netlink (routes, firewall): requests built in one buffer, sent as one batch, all answers awaited.
// A socket belongs to the network namespace it was opened in, wherever the caller is later.
// Single-threaded; a batch is at most kBytesMax; the first request the kernel refuses is the error
// (code io with its errno, the request's name in the message).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/fd.h"

namespace node {

class NetlinkBatch {
 public:
  // What a socket's standard buffer takes at once, with room for its bookkeeping.
  static constexpr size_t kBytesMax = size_t{160} * 1024;

  // Starts a request. `what` names it in errors ("add route").
  void begin(std::string_view what, uint16_t type, uint16_t flags);
  // The same for one that the kernel answers only if it fails.
  void begin_unanswered(std::string_view what, uint16_t type, uint16_t flags);
  template <typename Header>
  void header(const Header& header) {
    raw(&header, sizeof header);
  }
  void attribute(uint16_t type, const void* bytes, size_t size);
  void attribute_text(uint16_t type, std::string_view text);  // with its final zero
  template <typename Number>
  void attribute_number(uint16_t type, Number number) {
    attribute(type, &number, sizeof number);
  }
  // Opens an attribute that holds others; close() ends it.
  [[nodiscard]] size_t open(uint16_t type);
  void close(size_t start);
  void end();
  [[nodiscard]] size_t size() const { return bytes_.size(); }

 private:
  friend class Netlink;
  void raw(const void* bytes, size_t size);

  std::string bytes_;
  size_t start_ = 0;
  std::vector<std::string> names_;
  size_t answered_ = 0;  // how many of them are
};

class Netlink {
 public:
  // In the calling thread's current network namespace; 0: NETLINK_ROUTE.
  static base::Result<Netlink> open(int protocol = 0);

  // Sends all requests at once; they are carried out in order. After an error the rest was tried
  // as well: callers throw the whole thing away. `answers`, where it is given, gets what requests
  // are answered with besides: whole messages, their heads included.
  base::Result<void> run(const NetlinkBatch& batch, std::string* answers = nullptr);
  // For one that was set up to hear, and asks nothing any more.
  [[nodiscard]] base::Fd take_socket() && { return std::move(socket_); }
  // The interface's number; nothing (0) if there is none.
  [[nodiscard]] uint32_t index_of(const std::string& interface) const;
  // A number that no other network namespace of this boot has had: of the one it was opened in.
  [[nodiscard]] base::Result<uint64_t> name_space_cookie() const;

 private:
  explicit Netlink(base::Fd socket) : socket_(std::move(socket)) {}

  base::Fd socket_;
  uint32_t sequence_ = 0;
};

}  // namespace node
