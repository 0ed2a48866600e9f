#include "server/answers_json.h"

#include "service/cpus.h"
#include "service/create_request.h"

namespace server {
namespace {

using wire::json::Array;
using wire::json::Object;
using wire::json::Value;

Value text_or_null(const std::string& text) { return text.empty() ? Value(nullptr) : Value(text); }

Object amounts_json(const model::Amounts& amounts) {
  return Object{{"cpus", service::cpus_json(amounts[0])},
                {"memory_mb", amounts[1]},
                {"storage_mb", amounts[2]},
                {"sandboxes", amounts[3]}};
}

// null: no limit.
Object limits_json(const model::Limits& limits) {
  const auto one = [](const std::optional<int64_t>& limit) {
    return limit ? Value(*limit) : Value(nullptr);
  };
  return Object{{"cpus", limits[0] ? service::cpus_json(*limits[0]) : Value(nullptr)},
                {"memory_mb", one(limits[1])},
                {"storage_mb", one(limits[2])},
                {"sandboxes", one(limits[3])}};
}

Value queue_json(const std::optional<service::Admission::Place>& place) {
  if (!place) {
    return nullptr;
  }
  return Object{{"position", place->position}, {"reason", place->reason}};
}

std::string_view container_state(model::SandboxState state) {
  switch (state) {
    case model::SandboxState::ready:
      return "running";
    case model::SandboxState::queued:
    case model::SandboxState::starting:
      return "waiting";
    default:
      return "exited";
  }
}

}  // namespace

Value time_json(int64_t ms) {
  return ms == 0 ? Value(nullptr) : Value(base::rfc3339(base::from_ms(ms)));
}

Object quotas_json(const service::Admission::Overview& overview) {
  Array items;
  for (const auto& team : overview.teams) {
    items.push_back(Object{{"team", team.quota.name},
                           {"quota", limits_json(team.quota.nominal)},
                           {"borrowing_limit", limits_json(team.quota.borrowing)},
                           {"lending_limit", limits_json(team.quota.lending)},
                           {"reclaim", team.quota.reclaim},
                           {"drained", team.drained},
                           {"used", amounts_json(team.share.used)},
                           {"own", amounts_json(team.share.own)},
                           {"borrowed", amounts_json(team.share.borrowed)},
                           {"lent", amounts_json(team.share.lent)},
                           {"queued", team.queued}});
  }
  return Object{{"items", std::move(items)},
                {"pool", Object{{"size", amounts_json(overview.pool_size)},
                                {"used", amounts_json(overview.pool_used)}}},
                {"total", Object{{"limit", limits_json(overview.total)},
                                 {"used", amounts_json(overview.used)}}}};
}

Object container_json(const store::Container& container, model::SandboxState state,
                      const std::optional<service::ServiceStatus>& status) {
  if (!status) {
    return {{"name", container.name},
            {"image", container.image},
            {"state", container_state(state)},
            {"exit_code", nullptr},
            {"ready", state == model::SandboxState::ready}};
  }
  return {{"name", container.name},
          {"image", container.image},
          {"state", status->state == "idle" ? "running" : status->state},
          {"exit_code", status->exit_code ? Value(*status->exit_code) : Value(nullptr)},
          {"ready", status->is_ready()},
          {"health", status->health},
          {"restarts", status->restarts}};
}

Object sandbox_json(const service::SandboxRow& row, const service::Admission& admission,
                    const ContainerStates& states) {
  const model::Amounts borrowed = admission.borrowed(row);
  Object labels;
  for (const auto& [key, value] : row.labels) {
    labels[key] = value;
  }
  Array containers;
  for (size_t i = 0; i < row.containers.size(); ++i) {
    containers.push_back(
        container_json(row.containers[i], row.state, i < states.size() ? states[i] : std::nullopt));
  }
  if (containers.empty()) {
    containers.push_back(container_json({.name = "main", .image = row.image}, row.state, {}));
  }
  return Object{
      {"id", row.id},
      {"state", model::to_string(row.state)},
      {"reason", text_or_null(row.reason)},
      {"message", text_or_null(row.state == model::SandboxState::queued ? "" : row.message)},
      {"image", row.image},
      {"image_digest", text_or_null(row.image_digest)},
      {"cpus", service::cpus_json(row.resources.millicpus)},
      {"memory_mb", row.resources.memory_mb},
      {"storage_mb", row.resources.storage_mb},
      {"labels", std::move(labels)},
      {"team", row.team},
      {"owner", row.owner},
      {"isolation", row.isolation},
      {"network", service::network_json(row.network)},
      {"no_new_privileges", row.no_new_privileges},
      {"public_key", text_or_null(row.public_key)},
      {"containers", containers},
      {"queue", queue_json(admission.place_of(row))},
      {"borrowed", Object{{"cpus", service::cpus_json(borrowed[0])}, {"memory_mb", borrowed[1]}}},
      {"node", text_or_null(row.node)},
      {"lease_sec", row.lease_sec},
      {"max_lifetime_sec", row.max_lifetime_sec},
      {"created_at", time_json(row.created_ms)},
      {"admitted_at", time_json(row.admitted_ms)},
      {"ready_at", time_json(row.ready_ms)},
      {"deleted_at", time_json(row.deleted_ms)},
      {"lease_expires_at", time_json(row.lease_expires_ms)},
      {"max_lifetime_at", time_json(row.max_lifetime_ms)},
      {"last_activity_at", time_json(row.last_activity_ms)},
      {"timings",
       Object{{"queued_ms", row.queued_ms}, {"pull_ms", row.pull_ms}, {"start_ms", row.start_ms}}}};
}

Object event_json(const service::SandboxEvent& event) {
  Object out{{"id", event.id},
             {"at", time_json(event.at_ms)},
             {"type", event.type},
             {"reason", text_or_null(event.reason)},
             {"message", text_or_null(event.message)}};
  if (!event.container.empty()) {
    out["container"] = event.container;
  }
  return out;
}

Object audit_json(const service::AuditRow& row) {
  auto details = wire::json::parse(row.details_json);
  return Object{{"id", row.id},
                {"at", time_json(row.at_ms)},
                {"team", text_or_null(row.team)},
                {"event", row.event},
                {"sandbox", text_or_null(row.sandbox)},
                {"caller", text_or_null(row.caller)},
                {"token", text_or_null(row.token)},
                {"remote", text_or_null(row.remote)},
                {"status", row.status == 0 ? Value(nullptr) : Value(row.status)},
                {"error", text_or_null(row.error)},
                {"duration_ms", row.duration_ms < 0 ? Value(nullptr) : Value(row.duration_ms)},
                {"details", details ? std::move(*details) : Value(Object{})}};
}

Object image_json(const service::ImageInfo& image) {
  auto config = wire::json::parse(image.config_json);
  return Object{{"name", image.name},
                {"digest", image.digest},
                {"size_bytes", image.size_bytes},
                {"platform", image.platform},
                {"source", image.source},
                {"created_at", time_json(image.created_ms)},
                {"last_used_at", time_json(image.last_used_ms)},
                {"in_use", image.in_use},
                {"config", config ? std::move(*config) : Value(Object{})}};
}

Object pull_json(const std::string& id, const service::PullProgress& progress) {
  return Object{{"id", id},
                {"state", progress.state},
                {"name", text_or_null(progress.name)},
                {"reason", text_or_null(progress.reason)},
                {"message", text_or_null(progress.message)},
                {"progress", Object{{"done_bytes", progress.done_bytes},
                                    {"total_bytes", progress.total_bytes},
                                    {"layers_done", progress.layers_done},
                                    {"layers", progress.layers}}}};
}

Object registry_json(const service::RegistryView& registry) {
  return Object{{"host", registry.host},
                {"username", text_or_null(registry.username)},
                {"has_secret", registry.has_secret},
                {"mirror", text_or_null(registry.mirror)},
                {"plain_http", registry.plain_http}};
}

std::string list_body(Array items, const std::string& next_cursor) {
  return wire::json::serialize(
      Object{{"items", std::move(items)}, {"next_cursor", text_or_null(next_cursor)}});
}

}  // namespace server
