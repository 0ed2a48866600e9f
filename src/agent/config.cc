#include "agent/config.h"

#include "wire/container_json.h"

namespace agent {

namespace {

Result<ServiceConfig> parse_service(const wire::json::Object& object) {
  wire::json::Reader reader(object, "service");
  ServiceConfig service;
  ASSIGN_OR_RETURN(service.argv, reader.required<std::vector<std::string>>("argv"));
  ASSIGN_OR_RETURN(service.terminal, reader.required<bool>("tty"));
  ASSIGN_OR_RETURN(service.input, reader.required<bool>("stdin"));
  ASSIGN_OR_RETURN(const auto restart, reader.required<std::string>("restart"));
  ASSIGN_OR_RETURN(service.restart, wire::parse_restart(restart));
  ASSIGN_OR_RETURN(service.restarts_max, reader.required<int64_t>("restarts_max"));
  ASSIGN_OR_RETURN(const auto check, reader.optional<wire::json::Object>("healthcheck"));
  if (check) {
    ASSIGN_OR_RETURN(service.healthcheck, wire::parse_healthcheck(*check));
  }
  return service;
}

}  // namespace

Result<Config> parse_config(std::string_view text) {
  ASSIGN_OR_RETURN(const auto object, wire::json::parse_object(text));
  wire::json::Reader reader(object);
  ASSIGN_OR_RETURN(auto environment, reader.optional<Environment>("env"));
  ASSIGN_OR_RETURN(auto user, reader.optional<std::string>("user"));
  ASSIGN_OR_RETURN(auto workdir, reader.optional<std::string>("workdir"));
  ASSIGN_OR_RETURN(const auto locked, reader.optional<bool>("no_new_privileges"));
  ASSIGN_OR_RETURN(const auto awaits, reader.optional<bool>("await_credentials"));
  ASSIGN_OR_RETURN(auto entrypoint, reader.optional<std::vector<std::string>>("entrypoint"));
  Config config{.environment = std::move(environment).value_or(Environment{}),
                .user = std::move(user).value_or(""),
                .workdir = std::move(workdir).value_or("/"),
                .no_new_privileges = locked.value_or(false),
                .entrypoint = std::move(entrypoint).value_or(std::vector<std::string>{}),
                .await_credentials = awaits.value_or(false)};
  if (config.workdir.empty()) {
    config.workdir = "/";
  }
  if (!config.workdir.starts_with('/')) {
    return base::fail_field("workdir", "the workdir must be absolute");
  }
  ASSIGN_OR_RETURN(const auto service, reader.optional<wire::json::Object>("service"));
  if (service) {
    ASSIGN_OR_RETURN(config.service, parse_service(*service));
  }
  ASSIGN_OR_RETURN(auto prefix, reader.optional<std::string>("session_prefix"));
  config.session_prefix = std::move(prefix).value_or("s");
  ASSIGN_OR_RETURN(const auto mounts, reader.optional<wire::json::Array>("mounts"));
  for (const wire::json::Value& value : mounts.value_or(wire::json::Array{})) {
    if (!value.is_object()) {
      return base::fail_field("mounts", "mounts must hold objects");
    }
    wire::json::Reader mount(value.get_object(), "mounts");
    ASSIGN_OR_RETURN(std::string path, mount.required<std::string>("path"));
    ASSIGN_OR_RETURN(const bool copy, mount.required<bool>("copy"));
    config.mounts.push_back({.path = std::move(path), .copy = copy});
  }
  return config;
}

std::string from_workdir(const Config& config, std::string_view path) {
  if (path.empty()) {
    return config.workdir;
  }
  const std::string_view between = config.workdir.ends_with('/') ? "" : "/";
  return path.starts_with('/') ? std::string(path) : base::cat(config.workdir, between, path);
}

}  // namespace agent
