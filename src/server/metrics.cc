#include "server/metrics.h"

#include <algorithm>

#include "base/text.h"
#include "server/route.h"

namespace server {
namespace {

std::string labels_of(size_t index) {
  if (index < routes().size()) {
    const Route& route = routes()[index];
    return base::cat(label("method", route.method), ",", label("route", route.pattern));
  }
  return base::cat(label("method", ""), ",", label("route", "other"));
}

}  // namespace

Metrics::Metrics(size_t routes) : rows_(routes + 1) {}

void Metrics::count(size_t route, int status, std::chrono::nanoseconds took,
                    std::string_view team) {
  Row& row = rows_[std::min(route, rows_.size() - 1)];
  constexpr int kClassSize = 100;
  ++row.by_class.at(std::min(static_cast<size_t>(status / kClassSize), kClasses - 1));
  row.times.observe(took);
  if (team.empty()) {
    return;
  }
  if (const auto found = teams_.find(team); found != teams_.end()) {
    ++found->second;
  } else {
    ++teams_[std::string(teams_.size() < kTeamsMax ? team : kOtherTeams)];
  }
}

void Metrics::write(MetricsText& text) const {
  text.counter("http_requests_total", "Requests by route and class of status");
  for (size_t i = 0; i < rows_.size(); ++i) {
    for (size_t status = 0; status < kClasses; ++status) {
      if (const uint64_t count = rows_[i].by_class.at(status); count > 0) {
        text.value(base::cat(labels_of(i), ",", label("status", base::cat(status, "xx"))),
                   static_cast<int64_t>(count));
      }
    }
  }
  text.histogram("http_request_duration_seconds", "From a request's head to its answer's end");
  for (size_t i = 0; i < rows_.size(); ++i) {
    if (rows_[i].times.count > 0) {
      text.histogram_of(labels_of(i), rows_[i].times);
    }
  }
  text.counter("team_requests_total", "Requests by team");
  for (const auto& [team, count] : teams_) {
    text.value(label("team", team), static_cast<int64_t>(count));
  }
  text.gauge("connections", "Connections that are open");
  text.value("", connections_);
}

}  // namespace server
