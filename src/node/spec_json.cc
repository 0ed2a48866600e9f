#include "node/spec_json.h"

#include <algorithm>

#include "node/image_healthcheck.h"
#include "node/image_index.h"
#include "wire/container_json.h"

namespace node {
namespace {

using base::Result;
using wire::json::Array;
using wire::json::Object;
using wire::json::Reader;

constexpr size_t kIdLengthMax = 63;  // a DNS label
constexpr int64_t kMillicpusMin = 10;
constexpr int64_t kMegabytesMin = 16;
constexpr int64_t kPidsMin = 8;
// Far above any machine, far below where arithmetic on bytes could overflow.
constexpr int64_t kLimitMax = int64_t{1} << 32;

Result<int64_t> read_limit(Reader& reader, std::string_view name, int64_t least) {
  ASSIGN_OR_RETURN(const auto value, reader.required<int64_t>(name));
  if (value < least || value > kLimitMax) {
    return base::fail_field(reader.path(name), reader.path(name), " must be from ", least, " to ",
                            kLimitMax);
  }
  return value;
}

Result<model::Resources> parse_resources(const Object& object) {
  Reader reader(object, "resources");
  model::Resources resources;
  ASSIGN_OR_RETURN(resources.millicpus, read_limit(reader, "millicpus", kMillicpusMin));
  ASSIGN_OR_RETURN(resources.memory_mb, read_limit(reader, "memory_mb", kMegabytesMin));
  ASSIGN_OR_RETURN(resources.storage_mb, read_limit(reader, "storage_mb", kMegabytesMin));
  ASSIGN_OR_RETURN(resources.pids, read_limit(reader, "pids", kPidsMin));
  RETURN_IF_ERROR(reader.finish());
  return resources;
}

Array list(const std::vector<std::string>& texts) {
  Array array;
  for (const std::string& text : texts) {
    array.emplace_back(text);
  }
  return array;
}

std::string_view to_string(State state) {
  switch (state) {
    case State::starting:
      return "starting";
    case State::ready:
      return "ready";
    case State::failed:
      return "failed";
  }
  return "failed";
}

}  // namespace

bool is_sandbox_id(std::string_view id) {
  const auto fine = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  };
  return !id.empty() && id.size() <= kIdLengthMax && id.front() != '-' && id.back() != '-' &&
         std::ranges::all_of(id, fine);
}

Result<model::SandboxSpec> parse_spec(const Object& object) {
  Reader reader(object, "");
  model::SandboxSpec spec;
  ASSIGN_OR_RETURN(spec.id, reader.required<std::string>("id"));
  if (!is_sandbox_id(spec.id)) {
    return base::fail_field("id", "id must be 1 to 63 of a-z, 0-9 and '-'");
  }
  ASSIGN_OR_RETURN(const auto containers, reader.required<Array>("containers"));
  ASSIGN_OR_RETURN(spec.containers, wire::parse_containers(containers));
  ASSIGN_OR_RETURN(const auto resources, reader.required<Object>("resources"));
  ASSIGN_OR_RETURN(spec.resources, parse_resources(resources));
  ASSIGN_OR_RETURN(const auto network, reader.required<std::string>("network"));
  ASSIGN_OR_RETURN(spec.network, model::parse_network_policy(network));
  ASSIGN_OR_RETURN(const auto no_new_privileges, reader.optional<bool>("no_new_privileges"));
  ASSIGN_OR_RETURN(const auto always_pull, reader.optional<bool>("always_pull"));
  ASSIGN_OR_RETURN(const auto builder, reader.optional<bool>("builder"));
  ASSIGN_OR_RETURN(const auto registry, reader.optional<Object>("registry"));
  RETURN_IF_ERROR(reader.finish());
  spec.builder = builder.value_or(false);
  spec.no_new_privileges = no_new_privileges.value_or(false);
  spec.always_pull = always_pull.value_or(false);
  if (registry) {
    ASSIGN_OR_RETURN(spec.registry, wire::parse_registry(*registry));
  }
  return spec;
}

Object to_json(const Status& status) {
  return Object{{"id", status.id},
                {"state", to_string(status.state)},
                {"reason", status.reason},
                {"message", status.message},
                {"image_digest", status.image_digest},
                {"pull_ms", status.pull_ms},
                {"start_ms", status.start_ms}};
}

Object to_json(const Change& change) {
  return Object{
      {"type", change.type}, {"message", change.message}, {"status", to_json(change.status)}};
}

Object to_json(const ImageRow& image) {
  return Object{{"name", image.name},
                {"digest", image.digest},
                {"size_bytes", image.size_bytes},
                {"platform", image.platform},
                {"source", image.source},
                {"created_ms", image.created_ms},
                {"last_used_ms", image.last_used_ms},
                {"in_use", image.in_use},
                {"config", shown_config(image.config)}};
}

Object to_json(const PullProgress& progress) {
  return Object{{"state", progress.state},
                {"done_bytes", progress.done_bytes},
                {"total_bytes", progress.total_bytes},
                {"layers_done", progress.layers_done},
                {"layers", progress.layers},
                {"reason", progress.reason},
                {"message", progress.message},
                {"name", progress.name}};
}

Object to_json(const Check& check) {
  return Object{
      {"name", check.name}, {"ok", check.ok}, {"message", check.message}, {"mend", check.mend}};
}

Object error_to_json(const base::Error& error) {
  Object details;
  for (const auto& [key, value] : error.details) {
    details[key] = value;
  }
  return Object{{"code", base::to_string(error.code)},
                {"message", error.message},
                {"details", std::move(details)}};
}

namespace {

// What the container runs: the image's ENTRYPOINT and CMD, or what stands over them.
std::vector<std::string> own_command(const model::ContainerSpec& container,
                                     const ImageConfig& image) {
  std::vector<std::string> argv = image.entrypoint;
  const std::vector<std::string>* command = &image.cmd;
  const std::vector<std::string> none;
  if (container.service && container.service->entrypoint) {
    argv = *container.service->entrypoint;
    command = &none;
  }
  if (container.service && container.service->command) {
    command = &*container.service->command;
  }
  argv.insert(argv.end(), command->begin(), command->end());
  return argv;
}

Object service_json(const model::ContainerSpec& container, const ImageConfig& image) {
  const model::Service& service = *container.service;
  Object out{{"argv", list(own_command(container, image))},
             {"tty", service.terminal},
             {"stdin", service.input},
             {"restart", wire::to_string(service.restart)},
             {"restarts_max", service.restarts_max}};
  if (service.healthcheck) {
    out["healthcheck"] = wire::to_json(*service.healthcheck);
  } else if (const auto check = image_healthcheck(image.more_json);
             check && !service.no_healthcheck) {
    out["healthcheck"] = wire::to_json(*check);
  }
  return out;
}

}  // namespace

std::string agent_config(const model::SandboxSpec& spec, const model::ContainerSpec& container,
                         const ImageConfig& image) {
  Object environment;
  for (const auto& [name, value] : image.environment) {
    environment[name] = value;
  }
  for (const auto& [name, value] : container.environment) {
    environment[name] = value;
  }
  std::string workdir = container.workdir.value_or(image.workdir);
  if (!workdir.starts_with('/')) {
    workdir.insert(0, "/");
  }
  Object config{{"env", std::move(environment)},
                {"user", container.user.value_or(image.user)},
                {"workdir", std::move(workdir)},
                {"no_new_privileges", spec.no_new_privileges},
                {"pids", Object{{"agent", 1}}}};
  if (container.run_entrypoint) {
    config["entrypoint"] = list(own_command(container, image));
    config["await_credentials"] = container.await_credentials;
  }
  if (container.service) {
    config["service"] = service_json(container, image);
    // The ids of sessions tell whose they are: "s2-..." is of the container of that number.
    const auto number = static_cast<size_t>(&container - spec.containers.data());
    config["session_prefix"] = number == 0 ? "s" : base::cat("s", number);
  }
  if (!container.mounts.empty()) {
    Array mounts;
    for (const model::Mount& mount : container.mounts) {
      mounts.push_back(Object{{"path", mount.target},
                              {"copy", mount.copy && !mount.read_only && !mount.volume.empty()}});
    }
    config["mounts"] = std::move(mounts);
  }
  return wire::json::serialize(config);
}

}  // namespace node
