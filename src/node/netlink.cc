#include "node/netlink.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <array>

namespace node {

using base::fail;
using base::fail_errno;
using base::Result;

namespace {

constexpr size_t kAnswerBytesMax = 8192;

// Netlink aligns every header and attribute to 4 bytes.
void align(std::string& bytes) { bytes.resize((bytes.size() + 3) & ~size_t{3}, '\0'); }

// Whether the message of that number asks for an answer in any case.
bool is_answered(const std::string& bytes, uint32_t number) {
  nlmsghdr head{};
  for (size_t at = 0; at < bytes.size(); at += NLMSG_ALIGN(head.nlmsg_len)) {
    ::memcpy(&head, bytes.data() + at, sizeof head);
    if (number-- == 0) {
      break;
    }
  }
  return (head.nlmsg_flags & NLM_F_ACK) != 0;
}

template <typename Length>
void patch(std::string& bytes, size_t at, Length length) {
  ::memcpy(bytes.data() + at, &length, sizeof length);
}

}  // namespace

void NetlinkBatch::raw(const void* bytes, size_t size) {
  bytes_.append(static_cast<const char*>(bytes), size);
  align(bytes_);
}

void NetlinkBatch::begin(std::string_view what, uint16_t type, uint16_t flags) {
  begin_unanswered(what, type, static_cast<uint16_t>(NLM_F_ACK | flags));
  ++answered_;
}

void NetlinkBatch::begin_unanswered(std::string_view what, uint16_t type, uint16_t flags) {
  align(bytes_);
  start_ = bytes_.size();
  nlmsghdr head{};
  head.nlmsg_type = type;
  head.nlmsg_flags = static_cast<uint16_t>(NLM_F_REQUEST | flags);
  names_.emplace_back(what);
  raw(&head, sizeof head);
}

void NetlinkBatch::end() { patch(bytes_, start_, static_cast<uint32_t>(bytes_.size() - start_)); }

void NetlinkBatch::attribute(uint16_t type, const void* bytes, size_t size) {
  const auto start = open(type);
  bytes_.append(static_cast<const char*>(bytes), size);
  close(start);
}

void NetlinkBatch::attribute_text(uint16_t type, std::string_view text) {
  const std::string terminated(text);
  attribute(type, terminated.c_str(), terminated.size() + 1);
}

size_t NetlinkBatch::open(uint16_t type) {
  const auto start = bytes_.size();
  const rtattr head{.rta_len = 0, .rta_type = type};
  raw(&head, sizeof head);
  return start;
}

void NetlinkBatch::close(size_t start) {
  patch(bytes_, start, static_cast<uint16_t>(bytes_.size() - start));
  align(bytes_);
}

Result<Netlink> Netlink::open(int protocol) {
  base::Fd socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol));
  if (!socket) {
    return fail_errno(errno, "open a netlink socket");
  }
  // Answers without a copy of the request.
  const int one = 1;
  if (::setsockopt(socket.get(), SOL_NETLINK, NETLINK_CAP_ACK, &one, sizeof one) != 0) {
    return fail_errno(errno, "set NETLINK_CAP_ACK");
  }
  return Netlink(std::move(socket));
}

Result<void> Netlink::run(const NetlinkBatch& batch, std::string* answers) {
  auto bytes = batch.bytes_;
  const auto first = sequence_;
  for (size_t at = 0; at < bytes.size();) {
    nlmsghdr head;
    ::memcpy(&head, bytes.data() + at, sizeof head);
    head.nlmsg_seq = sequence_++;
    ::memcpy(bytes.data() + at, &head, sizeof head);
    at += NLMSG_ALIGN(head.nlmsg_len);
  }
  if (::send(socket_.get(), bytes.data(), bytes.size(), 0) < 0) {
    return fail_errno(errno, "send to netlink");
  }
  Result<void> outcome;
  for (size_t answered = 0; answered < batch.answered_;) {
    alignas(nlmsghdr) std::array<char, kAnswerBytesMax> buffer;
    const auto size = ::recv(socket_.get(), buffer.data(), buffer.size(), 0);
    if (size < 0 && errno == EINTR) {
      continue;
    }
    if (size < 0) {
      return fail_errno(errno, "read from netlink");
    }
    for (size_t at = 0; at + sizeof(nlmsghdr) <= static_cast<size_t>(size);) {
      nlmsghdr head;
      ::memcpy(&head, buffer.data() + at, sizeof head);
      nlmsgerr answer{};
      const auto index = head.nlmsg_seq - first;
      if (head.nlmsg_type == NLMSG_ERROR && index < batch.names_.size()) {
        ::memcpy(&answer, buffer.data() + at + NLMSG_HDRLEN, sizeof answer.error);
        ++answered;
        if (answer.error != 0 && outcome) {
          outcome = fail_errno(-answer.error, batch.names_[index]);
        }
        // The whole of a transaction, which has no further answers; late ones are passed over.
        if (answer.error != 0 && !is_answered(bytes, index)) {
          return outcome;
        }
      } else if (answers != nullptr) {
        answers->append(buffer.data() + at,
                        std::min<size_t>(head.nlmsg_len, static_cast<size_t>(size) - at));
      }
      at += NLMSG_ALIGN(head.nlmsg_len);
    }
  }
  return outcome;
}

uint32_t Netlink::index_of(const std::string& interface) const {
  ifreq request{};
  if (interface.size() >= sizeof request.ifr_name) {
    return 0;
  }
  ::memcpy(request.ifr_name, interface.c_str(), interface.size() + 1);
  if (::ioctl(socket_.get(), SIOCGIFINDEX, &request) != 0) {
    return 0;
  }
  return static_cast<uint32_t>(request.ifr_ifindex);
}

Result<uint64_t> Netlink::name_space_cookie() const {
  uint64_t cookie = 0;
  socklen_t size = sizeof cookie;
  if (::getsockopt(socket_.get(), SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &size) != 0) {
    return fail_errno(errno, "ask for the network namespace's cookie");
  }
  return cookie;
}

}  // namespace node
