// store_load URL SANDBOXES AUDIT_ROWS: fills an empty store as years of use would and times what
// the API's lists ask of it. Prints one JSON object a line: {"what", "median_ms", "most_ms",
// "cpu_ms"}; the last is what this process itself used: with SQLite nearly all, and the same on a
// busy machine.
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "store/store.h"

namespace {

using store::Sandbox;

constexpr int64_t kTeams = 10;
constexpr int64_t kOwners = 50;
constexpr int64_t kKinds = 20;
constexpr int64_t kLiveOf = 5;  // one in so many is alive
constexpr size_t kAuditBatch = 1000;
constexpr int kRuns = 60;
constexpr int64_t kStart = 1'700'000'000'000;

std::string team_of(int64_t i) {
  return i % kTeams == 0 ? "default" : base::cat("team-", i % kTeams);
}
std::string id_of(int64_t i) { return base::cat("sbx-", 1'000'000 + i); }

Sandbox sandbox_of(int64_t i) {
  constexpr int64_t kStepMs = 1000;
  Sandbox out;
  out.id = id_of(i);
  out.owner = base::cat("person-", i % kOwners);
  out.state = i % kLiveOf == 0 ? model::SandboxState::ready : model::SandboxState::deleted;
  out.image = base::cat("docker.io/library/image-", i % kKinds, ":latest");
  out.labels = {{"kind", base::cat("k", i % kKinds)}, {"run", base::cat("r", i)}};
  out.environment_sealed.assign(200, 'x');
  out.created_ms = kStart + i * kStepMs;
  return out;
}

base::Result<void> fill(store::Store& rows, int64_t sandboxes, int64_t audit_rows) {
  for (int64_t i = 1; i < kTeams; ++i) {
    RETURN_IF_ERROR(rows.put_team({.name = team_of(i)}));
  }
  for (int64_t i = 0; i < sandboxes; ++i) {
    RETURN_IF_ERROR(
        rows.insert_sandbox(team_of(i), sandbox_of(i),
                            {{.at_ms = 1, .type = "created"}, {.at_ms = 2, .type = "ready"}}));
  }
  std::vector<store::AuditRow> batch;
  for (int64_t i = 0; i < audit_rows; ++i) {
    const int64_t of = i % sandboxes;
    batch.push_back({.team = team_of(of),
                     .sandbox = id_of(of),
                     .at_ms = kStart + i,
                     .event = i % 10 == 0 ? "sandbox.create" : "command.run",
                     .caller = base::cat("person-", i % kOwners),
                     .remote = "192.0.2.1",
                     .details_json = R"j({"argv":["python3","-c","print(1)"],"exit_code":0})j"});
    if (batch.size() == kAuditBatch || i + 1 == audit_rows) {
      RETURN_IF_ERROR(rows.append_audit(batch));
      batch.clear();
    }
  }
  return {};
}

double cpu_ms() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  constexpr double kThousand = 1000;
  constexpr double kMillion = 1e6;
  return static_cast<double>(time.tv_sec) * kThousand +
         static_cast<double>(time.tv_nsec) / kMillion;
}

// Median and most of kRuns, in milliseconds.
template <typename Work>
bool time_it(const char* what, Work work) {
  std::vector<double> times;
  std::vector<double> cpu_times;
  for (int run = 0; run < kRuns; ++run) {
    const double cpu_begun = cpu_ms();
    const auto begun = std::chrono::steady_clock::now();
    const auto done = work(run);
    if (!done) {
      ::fprintf(stderr, "%s: %s\n", what, done.error().message.c_str());
      return false;
    }
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begun;
    times.push_back(took.count());
    cpu_times.push_back(cpu_ms() - cpu_begun);
  }
  std::ranges::sort(times);
  std::ranges::sort(cpu_times);
  ::printf("{\"what\": \"%s\", \"median_ms\": %.2f, \"most_ms\": %.2f, \"cpu_ms\": %.2f}\n", what,
           times[times.size() / 2], times.back(), cpu_times[cpu_times.size() / 2]);
  ::fflush(stdout);
  return true;
}

bool measure(store::Store& rows, int64_t sandboxes) {
  const auto list = [&rows](const char* what, const std::function<store::SandboxFilter(int)>& of) {
    return time_it(what, [&](int run) { return rows.list_sandboxes({"team-5"}, of(run)); });
  };
  const auto kind = [](int run) { return base::cat("k", run % kKinds); };
  const std::string middle = base::cat(kStart + sandboxes / 2 * 1000, ".", id_of(sandboxes / 2));
  bool fine = list("live", [](int) { return store::SandboxFilter{}; });
  fine = list("archived too", [](int) { return store::SandboxFilter{.archived = true}; }) && fine;
  fine = list("archived, a thousand",
              [](int) { return store::SandboxFilter{.archived = true, .limit = 1000}; }) &&
         fine;
  fine = list("archived, from the middle",
              [&](int) {
                return store::SandboxFilter{.archived = true, .limit = 100, .cursor = middle};
              }) &&
         fine;
  fine = list("archived, by label",
              [&](int run) {
                return store::SandboxFilter{.labels = {{"kind", kind(run)}}, .archived = true};
              }) &&
         fine;
  fine = list("archived, by a label of one",
              [&](int run) {
                return store::SandboxFilter{.labels = {{"run", base::cat("r", run * 10 + 5)}},
                                            .archived = true};
              }) &&
         fine;
  fine = list("archived, by owner",
              [](int run) {
                return store::SandboxFilter{.owner = base::cat("person-", run % kOwners),
                                            .archived = true};
              }) &&
         fine;
  fine = list("archived, by text of none",
              [](int) {
                return store::SandboxFilter{.text = "nothing-like-this", .archived = true};
              }) &&
         fine;
  fine = time_it("all teams, by text of none",
                 [&](int) {
                   return rows.list_sandboxes_of_all_teams({.text = "not-there", .archived = true});
                 }) &&
         fine;
  fine = time_it("all that live", [&](int) { return rows.all_live_sandboxes(); }) && fine;
  fine = time_it("due", [&](int) { return rows.due_sandboxes(kStart); }) && fine;
  const auto audit = [&rows, sandboxes](const char* what, const store::AuditFilter& filter) {
    return time_it(what, [&](int run) {
      const int64_t i = run * 131 % sandboxes;
      return rows.list_audit(team_of(i), id_of(i), filter);
    });
  };
  fine = audit("audit of a sandbox", {}) && fine;
  fine = audit("audit of a sandbox, by event", {.event = "sandbox.create"}) && fine;
  fine = time_it("audit of a sandbox, counted",
                 [&](int run) { return rows.count_audit(team_of(run), id_of(run), {}); }) &&
         fine;
  return fine;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    ::fputs("usage: store_load URL SANDBOXES AUDIT_ROWS\n", stderr);
    return 2;
  }
  const int64_t sandboxes = ::atoll(argv[2]);
  auto opened = store::Store::open(argv[1]);
  if (!opened) {
    ::fprintf(stderr, "store_load: %s\n", opened.error().message.c_str());
    return 1;
  }
  const auto begun = std::chrono::steady_clock::now();
  if (const auto filled = fill(**opened, sandboxes, ::atoll(argv[3])); !filled) {
    ::fprintf(stderr, "store_load: %s\n", filled.error().message.c_str());
    return 1;
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
  ::fprintf(stderr, "filled in %.1f s\n", took.count());
  return measure(**opened, sandboxes) ? 0 : 1;
}
