// Fills a store with rows of an audit log and times each kind of question about them:
// audit_bench STORE ROWS. One line a question: its name, how many rows came, median and worst of
// kRuns in milliseconds. Exit code 1 where one is slower than what is promised.
#include <stdio.h>
#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "store/store.h"

namespace {

using store::AuditFilter;
using Clock = std::chrono::steady_clock;

constexpr int kRuns = 20;
constexpr double kPromisedMs = 20;
constexpr int64_t kBatch = 500;
constexpr int64_t kFirstMs = 1'770'000'000'000;
constexpr int64_t kStepMs = 1000;
constexpr int64_t kTeams = 20;
constexpr int64_t kCallers = 200;
constexpr int64_t kSandboxes = 10'000;
constexpr int64_t kRareEvery = 100'000;

store::AuditRow row_of(int64_t i) {
  const bool is_rare = i % kRareEvery == 7;
  store::AuditRow row{
      .team = base::cat("team-", i % kTeams),
      .sandbox = base::cat("sbx-", i % kSandboxes),
      .at_ms = kFirstMs + i * kStepMs,
      .event = is_rare ? "registry.put" : (i % 3 == 0 ? "file.read" : "command.run"),
      .caller = is_rare ? "rare" : base::cat("user-", i % kCallers),
      .token = "tok-abcdefghijklmnop",
      .remote = "192.0.2.1",
      .status = i % 50 == 0 ? 404 : 200,
      .error = i % 50 == 0 ? "file_not_found" : "",
      .duration_ms = i % 1000,
      .details_json = base::cat(R"({"argv":["python3","-c","print()", ")", i,
                                R"("],"cwd":"/work","exit_code":0,"status":200,"duration_ms":12,)",
                                R"("request_id":"req-abcdefgh)", i, "\"}")};
  return row;
}

bool fill(store::Store& store, int64_t rows) {
  const auto began = Clock::now();
  for (int64_t i = 0; i < rows;) {
    std::vector<store::AuditRow> batch;
    for (; i < rows && static_cast<int64_t>(batch.size()) < kBatch; ++i) {
      batch.push_back(row_of(i));
    }
    if (const auto done = store.append_audit(batch); !done) {
      ::fprintf(stderr, "%s\n", done.error().message.c_str());
      return false;
    }
  }
  const std::chrono::duration<double> took = Clock::now() - began;
  ::printf("%-44s %8lld rows  %.1f us a row\n", "append", static_cast<long long>(rows),
           took.count() * 1e6 / static_cast<double>(rows));
  return true;
}

// Whether it holds.
bool time_question(const std::string& name, const std::function<size_t()>& ask) {
  std::vector<double> times;
  size_t count = 0;
  for (int i = 0; i < kRuns; ++i) {
    const auto began = Clock::now();
    count = ask();
    const std::chrono::duration<double, std::milli> took = Clock::now() - began;
    times.push_back(took.count());
  }
  std::ranges::sort(times);
  const double median = times[times.size() / 2];
  const bool holds = median <= kPromisedMs;
  ::printf("%-44s %8zu rows  median %7.2f ms  worst %7.2f ms%s\n", name.c_str(), count, median,
           times.back(), holds ? "" : "  NO");
  return holds;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    ::fputs("audit_bench STORE ROWS\n", stderr);
    return 2;
  }
  auto opened = store::Store::open(argv[1]);
  if (!opened) {
    ::fprintf(stderr, "%s\n", opened.error().message.c_str());
    return 2;
  }
  store::Store& store = **opened;
  const int64_t rows = ::atoll(argv[2]);
  if (!fill(store, rows)) {
    return 2;
  }
  const int64_t middle = kFirstMs + rows / 2 * kStepMs;
  const std::string team = "team-7";
  const std::vector<std::pair<std::string, AuditFilter>> questions{
      {"newest of a team", {.team = team}},
      {"a page in the middle", {.team = team, .cursor = base::cat(middle, ".", rows / 2)}},
      {"of a caller", {.team = team, .caller = "user-7"}},
      {"of a rare caller", {.team = team, .caller = "rare"}},
      {"of a caller that is not there", {.team = team, .caller = "nobody"}},
      {"of an event", {.team = team, .event = "file.read"}},
      {"of a rare event", {.team = team, .event = "registry.put"}},
      {"of a sandbox", {.team = team, .sandbox = "sbx-7"}},
      {"failures", {.team = team, .result = "error"}},
      {"one code", {.team = team, .result = "file_not_found"}},
      {"of a time long ago", {.team = team, .from_ms = kFirstMs, .until_ms = kFirstMs + 3'600'000}},
      {"a text that is not there (one page)", {.team = team, .text = "no such text"}},
      {"all teams", {}},
      {"all teams, of a caller", {.caller = "user-7"}},
      {"all teams, of a rare event (one page)", {.event = "registry.put"}},
      {"all teams, of a sandbox", {.sandbox = "sbx-7"}},
      {"1000 rows of a team", {.team = team, .limit = 1000}}};
  bool holds = true;
  for (const auto& [name, filter] : questions) {
    holds = time_question(name,
                          [&] {
                            const auto page = store.page_audit(filter);
                            return page ? page->items.size() : size_t{0};
                          }) &&
            holds;
  }
  holds = time_question("a piece of the export",
                        [&] {
                          const auto piece = store.audit_lines({}, rows / 2, rows);
                          return piece ? static_cast<size_t>(std::ranges::count(piece->lines, '\n'))
                                       : size_t{0};
                        }) &&
          holds;
  holds = time_question("activity of a day, in hours",
                        [&] {
                          const auto points = store.list_activity({.team = team,
                                                                   .from_ms = middle,
                                                                   .until_ms = middle + 86'400'000,
                                                                   .step_ms = 3'600'000},
                                                                  10'000);
                          return points ? points->size() : size_t{0};
                        }) &&
          holds;
  return holds ? 0 : 1;
}
