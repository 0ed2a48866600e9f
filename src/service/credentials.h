// Credentials: what the operator's templates put into sandboxes (credential_templates.h), made for
// each, written by its agents before its first command, and made anew when half of their time is
// over. A sandbox whose credentials cannot be made or written starts all the same; its events say
// so, and it is tried again. Of several gateways the one that drives a sandbox does this. Owned by
// main; loop thread only. Bounds: kAtOnceMax sandboxes are refreshed at once.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "service/token_exchange.h"

namespace service {

class Credentials {
 public:
  static constexpr size_t kAtOnceMax = 64;

  Credentials(Context& context, TokenExchange& exchange, SandboxIdentity& identity,
              const CredentialSettings& settings)
      : context_(context), exchange_(exchange), identity_(identity), settings_(settings) {}

  // Whether any are configured: else a start has nothing to do with this.
  [[nodiscard]] bool any() const { return !settings_.templates.empty(); }
  // Makes and writes them into every container; ends when that is done or has failed.
  // `image_digest`: where the row does not have it yet. `on_sent`: the agent has been told, of a
  // sandbox of one container, and writes them before any command that comes from now on.
  net::Task<void> equip(LivePtr live, std::string image_digest,
                        std::function<void()> on_sent = nullptr);
  // Refreshes what is due, until cancelled. Spawned by main.
  net::Task<void> run();

 private:
  struct Made {
    std::string body;  // for the agents
    int64_t due_ms = 0;
    std::vector<std::string> failures;  // of templates that were left out
  };
  net::Task<Made> make(SandboxRow row);
  net::Task<base::Result<std::vector<std::string>>> write(std::string address, std::string body,
                                                          std::function<void()> on_sent);
  net::Task<void> refresh(LivePtr live);
  void tell(const LivePtr& live, const std::vector<std::string>& failures);
  [[nodiscard]] bool is_ours(const SandboxRow& row) const;
  [[nodiscard]] base::Milliseconds pause() const;

  Context& context_;
  TokenExchange& exchange_;
  SandboxIdentity& identity_;
  const CredentialSettings& settings_;
  size_t refreshing_ = 0;
};

}  // namespace service
