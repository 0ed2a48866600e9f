#include "server/figures.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <tuple>
#include <utility>

#include "base/sys.h"
#include "service/ssh.h"

namespace server {
namespace {

using service::CommandKind;
using service::Limiter;

constexpr std::array kKinds{CommandKind::run, CommandKind::exec, CommandKind::stream,
                            CommandKind::session, CommandKind::terminal};
// When this process began, for Prometheus to see that counters began anew.
const auto kBegan = std::chrono::system_clock::now();

int64_t number(uint64_t value) { return static_cast<int64_t>(value); }

// The teams with most sandboxes, the rest together.
std::vector<std::pair<std::string, int64_t>> by_team(const service::LiveSandboxes& live) {
  std::map<std::string, int64_t> counts;
  for (const auto& [id, one] : live.all()) {
    ++counts[one->row.team];
  }
  std::vector<std::pair<std::string, int64_t>> out(counts.begin(), counts.end());
  std::ranges::sort(out, [](const auto& a, const auto& b) {
    return std::tuple(b.second, a.first) < std::tuple(a.second, b.first);
  });
  if (out.size() > kTeamsMax) {
    int64_t rest = 0;
    for (size_t i = kTeamsMax; i < out.size(); ++i) {
      rest += out[i].second;
    }
    out.resize(kTeamsMax);
    out.emplace_back(kOtherTeams, rest);
  }
  return out;
}

void write_sandboxes(MetricsText& text, const Application& application) {
  text.gauge("sandboxes", "Sandboxes that are not gone, by state");
  for (const auto& [state, count] : application.sandboxes.count_by_state()) {
    text.value(label("state", state), count);
  }
  text.gauge("team_sandboxes", "Sandboxes that are not gone, by team");
  for (const auto& [team, count] : by_team(application.live)) {
    text.value(label("team", team), count);
  }
  text.counter("creates_total", "Creates that were accepted");
  text.value("", number(application.sandboxes.creates()));
  const service::Telemetry& telemetry = application.telemetry;
  text.counter("failures_total", "Sandboxes that failed, by reason");
  for (const auto& [reason, count] : telemetry.failures()) {
    text.value(label("reason", reason), number(count));
  }
  text.histogram("create_duration_seconds", "From an accepted create to ready");
  text.histogram_of("", telemetry.creates());
  text.histogram("start_phase_seconds", "Parts of it: waiting for quota, image, start");
  text.histogram_of(label("phase", "queue"), telemetry.queues());
  text.histogram_of(label("phase", "pull"), telemetry.pulls());
  text.histogram_of(label("phase", "start"), telemetry.starts());
}

// Cpus in cores, memory and storage in bytes, sandboxes counted.
void write_amount(MetricsText& text, std::string_view team, model::Dimension dimension,
                  int64_t amount) {
  constexpr int64_t kBytesPerMb = int64_t{1024} * 1024;
  constexpr int64_t kUsPerMilli = 1000;
  const auto labels = [&](std::string_view resource) {
    return base::cat(label("team", team), ",", label("resource", resource));
  };
  switch (dimension) {
    case model::Dimension::cpus:
      text.seconds(labels("cpus"), static_cast<uint64_t>(amount * kUsPerMilli));
      break;
    case model::Dimension::memory:
      text.value(labels("memory_bytes"), amount * kBytesPerMb);
      break;
    case model::Dimension::storage:
      text.value(labels("storage_bytes"), amount * kBytesPerMb);
      break;
    case model::Dimension::sandboxes:
      text.value(labels("sandboxes"), amount);
      break;
  }
}

// Of the teams that have a quota; those that use most first.
void write_quotas(MetricsText& text, const service::Admission::Overview& overview) {
  using TeamQuotas = service::Admission::TeamQuotas;
  std::vector<const TeamQuotas*> teams;
  for (const TeamQuotas& team : overview.teams) {
    if (team.quota.limited()) {
      teams.push_back(&team);
    }
  }
  std::ranges::sort(teams, std::greater{}, [](const TeamQuotas* team) {
    const auto sandboxes = static_cast<size_t>(model::Dimension::sandboxes);
    return std::pair(team->share.used.at(sandboxes), std::string_view(team->quota.name));
  });
  teams.resize(std::min(teams.size(), kTeamsMax));
  const auto write = [&](std::string_view name, std::string_view help, auto amount_of) {
    text.gauge(name, help);
    for (const TeamQuotas* team : teams) {
      for (size_t i = 0; i < model::kDimensions; ++i) {
        if (const std::optional<int64_t> amount = amount_of(*team, i)) {
          write_amount(text, team->quota.name, static_cast<model::Dimension>(i), *amount);
        }
      }
    }
  };
  write("team_quota", "What a team owns, where it has a quota",
        [](const TeamQuotas& team, size_t i) { return team.quota.nominal.at(i); });
  write("team_quota_used", "What a team's sandboxes have, borrowed or not",
        [](const TeamQuotas& team, size_t i) { return std::optional(team.share.used.at(i)); });
  write("team_quota_borrowed", "What of it is above the team's quota",
        [](const TeamQuotas& team, size_t i) { return std::optional(team.share.borrowed.at(i)); });
  text.gauge("team_queued_sandboxes", "Sandboxes that wait for quota");
  for (const TeamQuotas* team : teams) {
    text.value(label("team", team->quota.name), team->queued);
  }
}

void write_commands(MetricsText& text, const Application& application) {
  text.counter("runs_total", "Commands started by POST .../run");
  text.value("", number(application.commands.started(CommandKind::run)));
  text.counter("commands_total", "Commands that were started, by surface");
  for (const CommandKind kind : kKinds) {
    text.value(label("kind", to_string(kind)), number(application.commands.started(kind)));
  }
  text.histogram("command_duration_seconds", "Until the request that started it ended");
  for (const CommandKind kind : kKinds) {
    text.histogram_of(label("kind", to_string(kind)),
                      application.telemetry.commands(static_cast<size_t>(kind)));
  }
  int64_t running = 0;
  for (const auto& [id, live] : application.live.all()) {
    running += live->running_commands;
  }
  text.gauge("running_commands", "Commands whose request is open");
  text.value("", running);
}

void write_refusals(MetricsText& text, const Application& application) {
  text.gauge("streams", "WebSockets and followed answers that are open");
  text.value("", application.limiter.open_streams());
  text.counter("limited_requests_total", "Requests refused by a limit of their token");
  for (const auto kind :
       {Limiter::Kind::rate, Limiter::Kind::creates, Limiter::Kind::streams, Limiter::Kind::body}) {
    text.value(label("limit", Limiter::name(kind)), number(application.limiter.refused(kind)));
  }
  text.gauge("pressure", "0: none; 1: heavy work is refused, 2: also lists, 3: also commands");
  text.value("", static_cast<int64_t>(application.overload.pressure()));
  text.counter("shed_requests_total", "Requests refused because of pressure");
  for (const Work work : {Work::heavy, Work::other, Work::inside}) {
    text.value(label("work", name(work)), number(application.overload.refused(work)));
  }
}

void write_parts(MetricsText& text, const Application& application) {
  text.histogram("store_duration_seconds", "One job of the store, waiting for its turn included");
  text.histogram_of("", application.pool.times());
  text.histogram("engine_duration_seconds", "One call of the engine");
  const engine::CallTimes& calls = application.engine.call_times();
  text.histogram_of(label("call", "create"), calls.create);
  text.histogram_of(label("call", "remove"), calls.remove);
  text.histogram_of(label("call", "other"), calls.other);
  text.histogram("loop_lag_seconds", "How late the loop is, ten times a second");
  text.histogram_of("", application.overload.lags());
  const auto audit = application.audit.counts();
  text.counter("audit_rows_total", "Rows of the audit log that were stored");
  text.value("", number(audit.written));
  text.gauge("audit_pending_rows", "Rows of the audit log that wait for the store");
  text.value("", number(audit.pending));
  text.counter("audit_lost_rows_total", "Rows of the audit log that there was no room for");
  text.value("", number(audit.lost));
}

// The second word of /proc/self/statm, in pages.
int64_t resident_bytes() {
  constexpr size_t kBytesMax = 256;
  const auto text = base::sys::read_file("/proc/self/statm", kBytesMax);
  const auto words = text ? base::split(*text, ' ') : std::vector<std::string_view>();
  const auto pages = words.size() > 1 ? base::parse_number<int64_t>(words[1]) : std::nullopt;
  return pages.value_or(0) * ::sysconf(_SC_PAGESIZE);
}

void write_ssh(MetricsText& text, const service::Ssh& ssh) {
  text.gauge("ssh_fronts", "SSH fronts that are connected");
  text.value("", number(ssh.fronts()));
  text.gauge("ssh_connections", "SSH connections that have signed in");
  text.value("", number(ssh.connections()));
  text.counter("ssh_logins_total", "SSH logins, by result");
  text.value(label("result", "accepted"), number(ssh.counts().accepted));
  text.value(label("result", "refused"), number(ssh.counts().refused));
  text.counter("ssh_tunnels_total", "SSH connections that came as WebSockets");
  text.value("", number(ssh.counts().tunnels));
  text.counter("ssh_dropped_total", "SSH connections that the front's limits ended unheard");
  text.value("", number(ssh.counts().dropped));
}

void write_process(MetricsText& text, const Load& load) {
  constexpr uint64_t kUsPerSecond = 1'000'000;
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto us = [](const timeval& time) {
    return static_cast<uint64_t>(time.tv_sec) * kUsPerSecond + static_cast<uint64_t>(time.tv_usec);
  };
  text.counter("cpu_seconds_total", "Processor time, user and system");
  text.seconds("", us(usage.ru_utime) + us(usage.ru_stime));
  text.gauge("resident_memory_bytes", "Resident memory");
  text.value("", resident_bytes());
  text.gauge("open_fds", "Descriptors that are open");
  text.value("", load.open_files);
  text.gauge("max_fds", "Descriptors that may be open");
  text.value("", load.files_max);
  text.gauge("start_time_seconds", "When the process began, since 1970 UTC");
  text.seconds("", static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(
                                             kBegan.time_since_epoch())
                                             .count()));
}

}  // namespace

std::string figures_text(const Application& application,
                         const service::Admission::Overview* quotas) {
  MetricsText text("sandbox_gateway_");
  application.metrics.write(text);
  write_sandboxes(text, application);
  if (quotas != nullptr) {
    write_quotas(text, *quotas);
  }
  write_commands(text, application);
  write_refusals(text, application);
  if (application.ssh != nullptr) {
    write_ssh(text, *application.ssh);
  }
  write_parts(text, application);
  MetricsText process("process_");
  write_process(process, application.overload.load());
  return text.finish() + process.finish();
}

}  // namespace server
