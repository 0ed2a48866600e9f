// What the handlers work with; made in main. References, how bodies are coded, and one state.
#pragma once

#include "base/log.h"
#include "base/random.h"
#include "server/exchange.h"
#include "server/metrics.h"
#include "server/overload.h"
#include "service/access.h"
#include "service/builds.h"
#include "service/commands.h"
#include "service/default_sandbox.h"
#include "service/images.h"
#include "service/replicas.h"
#include "service/sandbox_identity.h"
#include "service/sandboxes.h"
#include "service/team_changes.h"
#include "service/tickets.h"
#include "service/token_limits.h"
#include "service/tokens.h"
#include "service/usage_history.h"

namespace service {
class SignIn;
class BrowserSignIn;
class DeviceSignIn;
class Ssh;
class TokenExchange;
}  // namespace service

namespace server {

struct Application {
  net::EventLoop& loop;
  base::Log& log;
  base::Random& random;
  service::Access& access;
  service::Teams& teams;
  service::TeamChanges& team_changes;
  service::Tokens& tokens;
  service::Sandboxes& sandboxes;
  service::Commands& commands;
  service::Tickets& tickets;
  service::SandboxIdentity& identity;
  service::TokenExchange& exchange;
  service::UsageHistory& usage;
  service::Images& images;
  service::Builds& builds;
  service::Audit& audit;
  service::Limiter& limiter;
  service::TokenLimitTable& token_limits;
  service::Replicas& replicas;
  Overload& overload;
  const service::LiveSandboxes& live;
  const service::Telemetry& telemetry;
  const net::BlockingPool& pool;
  const engine::Engine& engine;
  const service::DefaultSandbox& default_sandbox;
  Metrics& metrics;
  Coders coders;
  service::SignIn* people = nullptr;           // nullptr: nobody signs in here
  service::BrowserSignIn* browsers = nullptr;  // nullptr: people do not sign in here
  service::DeviceSignIn* devices = nullptr;    // likewise
  service::Ssh* ssh = nullptr;                 // nullptr: SSH is off
  // The gateway is about to stop: /readyz says so, and each answer ends its connection, so that a
  // balancer and its clients go elsewhere while all of it is still served.
  bool draining = false;
};

}  // namespace server
