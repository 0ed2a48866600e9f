#include "server/answers_json.h"
#include "server/handlers.h"
#include "service/usage_history.h"

namespace server {
namespace {

using wire::json::Object;
using wire::json::Value;
using Sample = service::UsageHistory::Sample;

Value counted(int64_t value) { return value < 0 ? Value(nullptr) : Value(value); }

// `before`: the sample that its cpu_percent counts from, or nullptr.
Object sample_json(const Sample& sample, const Sample* before) {
  const auto percent =
      before == nullptr ? std::nullopt : service::UsageHistory::cpu_percent(*before, sample);
  return {{"at", time_json(sample.at_ms)},
          {"cpu_usec", counted(sample.cpu_usec)},
          {"cpu_percent", percent ? Value(*percent) : Value(nullptr)},
          {"memory_bytes", counted(sample.memory_bytes)},
          {"storage_bytes", counted(sample.storage_bytes)},
          {"network_rx_bytes", counted(sample.rx_bytes)},
          {"network_tx_bytes", counted(sample.tx_bytes)},
          {"pids", counted(sample.pids)}};
}

}  // namespace

Task<Result<void>> sandbox_metrics(Application& application, Exchange& exchange) {
  CO_RETURN_IF_ERROR(exchange.check_parameters({}));
  const service::LivePtr live =
      application.sandboxes.find_live(exchange.caller(), exchange.segment(0));
  if (!live) {
    co_return base::fail(ErrorCode::not_found, "sandbox '", exchange.segment(0),
                         "' does not exist");
  }
  CO_ASSIGN_OR_RETURN(const auto report, co_await application.usage.report(live));
  wire::json::Array series;
  const Sample* before = nullptr;
  for (const Sample& sample : report.series) {
    series.emplace_back(sample_json(sample, before));
    before = &sample;
  }
  const model::Resources& limits = live->row.resources;
  constexpr int64_t kBytesPerMb = int64_t{1024} * 1024;
  constexpr double kMillicpusPerPercent = 10;
  co_return co_await exchange.answer_json(
      200, wire::json::serialize(Object{
               {"now", report.now ? Value(sample_json(*report.now, before)) : Value(nullptr)},
               {"limits", Object{{"cpu_percent",
                                  static_cast<double>(limits.millicpus) / kMillicpusPerPercent},
                                 {"memory_bytes", limits.memory_mb * kBytesPerMb},
                                 {"storage_bytes", limits.storage_mb * kBytesPerMb},
                                 {"pids", limits.pids}}},
               {"interval_sec", service::UsageHistory::kInterval.count()},
               {"series", std::move(series)}}));
}

}  // namespace server
