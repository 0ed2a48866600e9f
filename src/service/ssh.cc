#include "service/ssh.h"

#include <vector>

namespace service {

using base::ErrorCode;
using base::Result;

Result<void> Ssh::check_front() const {
  if (fronts_.empty()) {
    return base::fail(ErrorCode::ssh_unavailable, "there is no SSH front here");
  }
  return {};
}

Result<void> Ssh::hand_over(base::Fd socket, std::string_view token, std::string_view remote) {
  RETURN_IF_ERROR(check_front());
  std::vector<base::Fd> sockets;
  sockets.push_back(std::move(socket));
  ++counts_.tunnels;
  return fronts_.back()->send({{"token", token}, {"remote", remote}}, std::move(sockets));
}

Result<void> Ssh::check_room() const {
  if (connections_.size() >= kConnectionsMax) {
    return base::fail(ErrorCode::overloaded, "there are too many SSH connections");
  }
  return {};
}

Ssh::Connection::Connection(Ssh& ssh, SshTokens::Pass pass)
    : ssh_(ssh), pass_(std::move(pass)), secret_(base::new_secret(ssh.context_.random)) {
  ssh_.connections_[secret_] = this;
}

const Ssh::Connection* Ssh::find(const std::string& secret) const {
  const auto found = connections_.find(secret);
  return found == connections_.end() ? nullptr : found->second;
}

}  // namespace service
