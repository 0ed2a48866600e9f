// SSH as the gateway sees it: its tokens, the fronts (sandbox-ssh) that are there, and the
// connections that clients have through them. A connection is made with a token and then stands for
// its caller by a secret of its own, as long as the front holds the request open that made it: so
// it outlives the token, and nothing has to be renewed. Owned by main; loop thread only. Bounds:
// kConnectionsMax.
#pragma once

#include <list>
#include <string>
#include <unordered_map>
#include <vector>

#include "net/json_lines.h"
#include "service/context.h"
#include "service/ssh_host_key.h"
#include "service/ssh_tokens.h"

namespace service {

class Ssh {
 public:
  // More than one front serves.
  static constexpr size_t kConnectionsMax = 8'192;

  struct Settings {
    std::string host;  // where clients find the front; empty: where they found the gateway
    int64_t port = 0;
  };
  Ssh(Context& context, Settings settings, SshHostKey key)
      : context_(context),
        settings_(std::move(settings)),
        key_(std::move(key)),
        tokens_(context.secrets) {}
  Ssh(const Ssh&) = delete;
  Ssh& operator=(const Ssh&) = delete;

  [[nodiscard]] const Settings& settings() const { return settings_; }
  [[nodiscard]] const SshHostKey& key() const { return key_; }
  // A token for that sandbox, which the caller may use, and the container of it that is meant.
  [[nodiscard]] base::Result<std::string> issue(const Caller& caller, const std::string& sandbox,
                                                const std::string& container) const {
    return tokens_.issue(caller, sandbox, container, context_.now_ms());
  }
  [[nodiscard]] base::Result<SshTokens::Pass> verify(std::string_view token) const {
    return tokens_.verify(token, context_.now_ms());
  }

  // A front while it is connected.
  class Front {
   public:
    Front(Ssh& ssh, net::JsonLines& lines)
        : ssh_(ssh), place_(ssh.fronts_.insert(ssh.fronts_.end(), &lines)) {}
    Front(const Front&) = delete;
    Front& operator=(const Front&) = delete;
    ~Front() { ssh_.fronts_.erase(place_); }

   private:
    Ssh& ssh_;
    std::list<net::JsonLines*>::iterator place_;
  };
  // ssh_unavailable where there is no front.
  [[nodiscard]] base::Result<void> check_front() const;
  // Gives a client's bytes to a front: `socket` is one end of a pair, and the client needs no other
  // user name than the token.
  base::Result<void> hand_over(base::Fd socket, std::string_view token, std::string_view remote);

  // A client's connection, while the request that made it is open.
  class Connection {
   public:
    Connection(Ssh& ssh, SshTokens::Pass pass);
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;
    ~Connection() { ssh_.connections_.erase(secret_); }

    [[nodiscard]] const std::string& secret() const { return secret_; }
    [[nodiscard]] const std::string& sandbox() const { return pass_.sandbox; }
    // Empty: its first.
    [[nodiscard]] const std::string& container() const { return pass_.container; }
    [[nodiscard]] const Caller& caller() const { return pass_.caller; }

   private:
    Ssh& ssh_;
    SshTokens::Pass pass_;
    std::string secret_;
  };
  // nullptr: there is none (any more).
  [[nodiscard]] const Connection* find(const std::string& secret) const;
  [[nodiscard]] base::Result<void> check_room() const;

  // For the figures.
  struct Counts {
    uint64_t accepted = 0;  // connections whose token was good
    uint64_t refused = 0;   // and those whose was not
    uint64_t tunnels = 0;   // that came through the API
    uint64_t dropped = 0;   // that the front ended unheard, for its limits
  };
  [[nodiscard]] Counts& counts() { return counts_; }
  [[nodiscard]] const Counts& counts() const { return counts_; }
  [[nodiscard]] size_t connections() const { return connections_.size(); }
  [[nodiscard]] size_t fronts() const { return fronts_.size(); }

 private:
  Context& context_;
  Settings settings_;
  SshHostKey key_;
  SshTokens tokens_;
  std::list<net::JsonLines*> fronts_;
  std::unordered_map<std::string, const Connection*> connections_;
  Counts counts_;
};

}  // namespace service
