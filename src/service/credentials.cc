#include "service/credentials.h"

#include <algorithm>
#include <map>

#include "service/agent_call.h"

namespace service {
namespace {

using base::ErrorCode;
using base::Result;
using net::Task;
using wire::json::Object;

constexpr int64_t kMsPerSecond = 1000;
constexpr int64_t kRetryMs = 15'000;
// How often it is looked what is due: a fraction of a token's life.
constexpr int64_t kLooksInLife = 20;
constexpr int64_t kLookMsMin = 250;
constexpr int64_t kLookMsMax = 15'000;
constexpr size_t kFailureBytesMax = 500;  // of an agent's or a service's words

// Where a template's own values are; empty texts for what a text does not name.
TemplateValues values_of(const SandboxRow& row, const std::string& issuer,
                         const TokenExchange::Granted& granted) {
  TemplateValues values;
  const auto set = [&values](TemplateName name, std::string text) {
    values.at(static_cast<size_t>(name)) = std::move(text);
  };
  set(TemplateName::token, granted.token.reveal());  // into the sandbox that it is for
  set(TemplateName::token_expires_at, base::rfc3339(base::from_ms(granted.expires_ms)));
  set(TemplateName::gateway_url, std::string(kInnerGatewayUrl));
  set(TemplateName::issuer, issuer);
  set(TemplateName::sandbox_id, row.id);
  set(TemplateName::sandbox_team, row.team);
  set(TemplateName::sandbox_owner, row.owner);
  set(TemplateName::sandbox_image, row.image);
  return values;
}

std::string failure_text(std::string_view what, const base::Error& error) {
  return base::cat(what, ": ", error.message);
}

}  // namespace

bool Credentials::is_ours(const SandboxRow& row) const {
  return context_.replicas.drives(row) || !context_.replicas.lives(row.replica);
}

base::Milliseconds Credentials::pause() const {
  return base::Milliseconds(std::clamp(
      identity_.settings().lifetime_sec * kMsPerSecond / kLooksInLife, kLookMsMin, kLookMsMax));
}

Task<Credentials::Made> Credentials::make(SandboxRow row) {
  const int64_t now = context_.now_ms();
  Made made{.due_ms = now + identity_.settings().lifetime_sec * kMsPerSecond / 2};
  std::map<TokenSource, Result<TokenExchange::Granted>> tokens;
  Object files;
  Object variables;
  for (const CredentialTemplate& one : settings_.templates) {
    auto known = tokens.find(one.source);
    if (known == tokens.end()) {
      auto granted = co_await exchange_.obtain(row, one.source);
      known = tokens.emplace(one.source, std::move(granted)).first;
    }
    const auto& granted = known->second;
    if (!granted) {
      // What a team does not give its sandboxes is not amiss.
      if (granted.error().code != ErrorCode::forbidden) {
        made.failures.push_back(failure_text(one.name, granted.error()));
        made.due_ms = std::min(made.due_ms, now + kRetryMs);
      }
      continue;
    }
    made.due_ms = std::min(made.due_ms, now + (granted->expires_ms - now) / 2);
    const TemplateValues values = values_of(row, identity_.settings().issuer, *granted);
    for (const TemplateFile& file : one.files) {
      files[file.path] = file.content.render(values);
    }
    for (const TemplateVariable& variable : one.variables) {
      variables[variable.name] = variable.value.render(values);
    }
  }
  made.body = wire::json::serialize(
      Object{{"files", std::move(files)}, {"variables", std::move(variables)}});
  co_return made;
}

Task<Result<std::vector<std::string>>> Credentials::write(std::string address, std::string body,
                                                          std::function<void()> on_sent) {
  AgentQuestion question{.method = "PUT",
                         .target = "/credentials",
                         .body = std::move(body),
                         .on_sent = std::move(on_sent)};
  CO_ASSIGN_OR_RETURN(const auto answer,
                      co_await ask_agent_json(context_, std::move(address), std::move(question)));
  wire::json::Reader reader(answer);
  auto failed = reader.required<std::vector<std::string>>("failed");
  if (!failed) {
    co_return base::fail(ErrorCode::agent_failed, "the sandbox's agent did not say what it wrote");
  }
  co_return std::move(*failed);
}

Task<void> Credentials::equip(LivePtr live, std::string image_digest,
                              std::function<void()> on_sent) {
  SandboxRow row = live->row;
  if (!image_digest.empty()) {
    row.image_digest = std::move(image_digest);
  }
  const size_t containers = std::max<size_t>(row.containers.size(), 1);
  const std::string id = row.id;
  Made made = co_await make(std::move(row));
  for (size_t i = 0; i < containers; ++i) {
    auto failed = co_await write(engine::agent_address(id, i), made.body, on_sent);
    if (!failed) {
      made.failures.push_back(failed.error().message);
      made.due_ms = std::min(made.due_ms, context_.now_ms() + kRetryMs);
      continue;
    }
    std::ranges::move(*failed, std::back_inserter(made.failures));
  }
  live->credentials_due_ms = made.due_ms;
  tell(live, made.failures);
}

// In its events, when it begins.
void Credentials::tell(const LivePtr& live, const std::vector<std::string>& failures) {
  if (std::exchange(live->credentials_failing, !failures.empty()) || failures.empty() ||
      live->row.state == SandboxState::deleting || live->row.state == SandboxState::deleted) {
    return;
  }
  std::string message = audit_text(failures.front());
  if (message.size() > kFailureBytesMax) {
    message = "(a long message)";
  }
  context_.log.warning("credentials of a sandbox are not as they should be",
                       {{"sandbox", live->row.id}, {"error", message}});
  context_.journal.append({.write = [team = live->row.team, id = live->row.id,
                                     event = store::Event{.at_ms = context_.now_ms(),
                                                          .type = "credentials_failed",
                                                          .message = std::move(message)}](
                                        store::Store& rows) -> Result<void> {
                             RETURN_IF_ERROR(rows.append_event(team, id, event));
                             return {};
                           },
                           .then = [live] { live->note_recorded(); }});
}

Task<void> Credentials::refresh(LivePtr live) {
  co_await equip(live, "");
  live->equipping = false;
  --refreshing_;
}

Task<void> Credentials::run() {
  if (!any()) {
    co_return;
  }
  net::TaskGroup group(context_.loop, co_await net::current_cancellation());
  for (;;) {
    const auto wake = co_await context_.loop.sleep_until(net::Deadline::after(pause()));
    if (wake == net::EventLoop::Wake::cancelled) {
      break;
    }
    const int64_t now = context_.now_ms();
    for (const auto& [id, live] : context_.live.all()) {
      if (refreshing_ >= kAtOnceMax) {
        break;
      }
      if (live->row.state == SandboxState::ready && live->credentials_due_ms <= now &&
          !live->equipping && is_ours(live->row)) {
        live->equipping = true;
        ++refreshing_;
        group.spawn(refresh(live));
      }
    }
  }
  group.cancel();
  co_await group.join();
}

}  // namespace service
