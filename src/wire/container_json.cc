#include "wire/container_json.h"

#include <algorithm>
#include <array>

#include "base/text.h"

namespace wire {
namespace {

using base::fail_field;
using base::Result;
using json::Array;
using json::Object;
using json::Reader;
using json::Value;
using Words = std::vector<std::string>;

constexpr size_t kNameBytesMax = 63;
constexpr size_t kTargetBytesMax = 255;  // jail::kMountTargetMax
constexpr int64_t kDurationMsMax = int64_t{7} * 24 * 3600 * 1000;
constexpr int64_t kCountMax = 1'000'000;
// Far above any machine, far below where arithmetic on bytes could overflow.
constexpr int64_t kLimitMax = int64_t{1} << 32;

constexpr std::array<std::string_view, 3> kRestarts{"no", "on-failure", "always"};
constexpr std::array<std::string_view, 3> kConditions{"started", "healthy", "completed"};

bool has_nul(std::string_view text) { return text.find('\0') != std::string_view::npos; }

template <typename T>
Result<T> parse_word(const std::array<std::string_view, 3>& words, std::string_view text,
                     std::string_view field) {
  const auto found = std::ranges::find(words, text);
  if (found == words.end()) {
    return fail_field(field, "'", text, "' is no ", field);
  }
  return static_cast<T>(found - words.begin());
}

Array list(const Words& words) {
  Array out;
  for (const std::string& word : words) {
    out.emplace_back(word);
  }
  return out;
}

Object map(const std::map<std::string, std::string>& entries) {
  Object out;
  for (const auto& [name, value] : entries) {
    out[name] = value;
  }
  return out;
}

Result<int64_t> read_number(Reader& reader, std::string_view name, int64_t usual, int64_t most) {
  ASSIGN_OR_RETURN(const auto value, reader.optional<int64_t>(name));
  if (value && (*value < 0 || *value > most)) {
    return fail_field(reader.path(name), reader.path(name), " must be from 0 to ", most);
  }
  return value.value_or(usual);
}

Result<std::optional<Words>> read_words(Reader& reader, std::string_view name) {
  ASSIGN_OR_RETURN(auto words, reader.optional<Words>(name));
  if (words && std::ranges::any_of(*words, has_nul)) {
    return fail_field(reader.path(name), reader.path(name), " holds a NUL");
  }
  return words;
}

bool is_host_name(std::string_view name) {
  const auto fine = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  };
  return !name.empty() && name.size() <= kNameBytesMax && std::ranges::all_of(name, fine);
}

// Absolute, each part a name.
bool is_mount_target(std::string_view target) {
  if (!target.starts_with('/') || target.size() > kTargetBytesMax || has_nul(target)) {
    return false;
  }
  return std::ranges::none_of(base::split(target.substr(1), '/'), [](std::string_view part) {
    return part.empty() || part == "." || part == "..";
  });
}

Object mount_json(const model::Mount& mount) {
  return {{"volume", mount.volume},
          {"target", mount.target},
          {"read_only", mount.read_only},
          {"copy", mount.copy},
          {"size_mb", mount.size_mb}};
}

Result<model::Mount> parse_mount(const Value& value) {
  if (!value.is_object()) {
    return fail_field("mounts", "mounts must hold objects");
  }
  Reader reader(value.get_object(), "mounts");
  model::Mount mount;
  ASSIGN_OR_RETURN(mount.volume, reader.required<std::string>("volume"));
  ASSIGN_OR_RETURN(mount.target, reader.required<std::string>("target"));
  ASSIGN_OR_RETURN(mount.read_only, reader.required<bool>("read_only"));
  ASSIGN_OR_RETURN(mount.copy, reader.required<bool>("copy"));
  ASSIGN_OR_RETURN(mount.size_mb, read_number(reader, "size_mb", 0, kLimitMax));
  RETURN_IF_ERROR(reader.finish());
  if (!is_mount_target(mount.target)) {
    return fail_field("mounts.target", "mounts.target must be an absolute path");
  }
  return mount;
}

Object service_json(const model::Service& service) {
  Array dependencies;
  for (const model::Dependency& dependency : service.depends_on) {
    dependencies.push_back(
        Object{{"container", dependency.container},
               {"condition", kConditions[static_cast<size_t>(dependency.condition)]},
               {"required", dependency.required}});
  }
  Object out{{"tty", service.terminal},
             {"stdin", service.input},
             {"restart", to_string(service.restart)},
             {"restarts_max", service.restarts_max},
             {"depends_on", std::move(dependencies)}};
  if (service.entrypoint) {
    out["entrypoint"] = list(*service.entrypoint);
  }
  if (service.command) {
    out["command"] = list(*service.command);
  }
  if (service.healthcheck) {
    out["healthcheck"] = to_json(*service.healthcheck);
  }
  if (service.no_healthcheck) {
    out["no_healthcheck"] = true;
  }
  if (!service.files.empty()) {
    Array files;
    for (const model::ServiceFile& file : service.files) {
      files.push_back(Object{{"path", file.path},
                             {"content", file.content},
                             {"mode", int64_t{file.mode}},
                             {"owner", file.owner}});
    }
    out["files"] = std::move(files);
  }
  return out;
}

Result<model::ServiceFile> parse_service_file(const Value& value) {
  if (!value.is_object()) {
    return fail_field("files", "files must hold objects");
  }
  Reader reader(value.get_object(), "files");
  model::ServiceFile file;
  ASSIGN_OR_RETURN(file.path, reader.required<std::string>("path"));
  ASSIGN_OR_RETURN(file.content, reader.required<std::string>("content"));
  ASSIGN_OR_RETURN(const int64_t mode, read_number(reader, "mode", 0, 0777));
  ASSIGN_OR_RETURN(file.owner, reader.required<std::string>("owner"));
  RETURN_IF_ERROR(reader.finish());
  if (!is_mount_target(file.path)) {
    return fail_field("files.path", "files.path must be an absolute path");
  }
  file.mode = static_cast<uint32_t>(mode);
  return file;
}

Result<model::Dependency> parse_dependency(const Value& value) {
  if (!value.is_object()) {
    return fail_field("depends_on", "depends_on must hold objects");
  }
  Reader reader(value.get_object(), "depends_on");
  model::Dependency dependency;
  ASSIGN_OR_RETURN(dependency.container, reader.required<std::string>("container"));
  ASSIGN_OR_RETURN(const auto condition, reader.required<std::string>("condition"));
  ASSIGN_OR_RETURN(dependency.condition,
                   parse_word<model::Condition>(kConditions, condition, "condition"));
  ASSIGN_OR_RETURN(dependency.required, reader.required<bool>("required"));
  RETURN_IF_ERROR(reader.finish());
  return dependency;
}

Result<model::Service> parse_service(const Object& object) {
  Reader reader(object, "service");
  model::Service service;
  ASSIGN_OR_RETURN(service.entrypoint, read_words(reader, "entrypoint"));
  ASSIGN_OR_RETURN(service.command, read_words(reader, "command"));
  ASSIGN_OR_RETURN(service.terminal, reader.required<bool>("tty"));
  ASSIGN_OR_RETURN(service.input, reader.required<bool>("stdin"));
  ASSIGN_OR_RETURN(const auto restart, reader.required<std::string>("restart"));
  ASSIGN_OR_RETURN(service.restart, parse_restart(restart));
  ASSIGN_OR_RETURN(service.restarts_max, read_number(reader, "restarts_max", 0, kCountMax));
  ASSIGN_OR_RETURN(const auto check, reader.optional<Object>("healthcheck"));
  ASSIGN_OR_RETURN(const auto no_check, reader.optional<bool>("no_healthcheck"));
  service.no_healthcheck = no_check.value_or(false);
  ASSIGN_OR_RETURN(const auto files, reader.optional<Array>("files"));
  ASSIGN_OR_RETURN(const auto dependencies, reader.required<Array>("depends_on"));
  RETURN_IF_ERROR(reader.finish());
  if (check) {
    ASSIGN_OR_RETURN(service.healthcheck, parse_healthcheck(*check));
  }
  for (const Value& value : dependencies) {
    ASSIGN_OR_RETURN(auto dependency, parse_dependency(value));
    service.depends_on.push_back(std::move(dependency));
  }
  for (const Value& value : files.value_or(Array{})) {
    ASSIGN_OR_RETURN(auto file, parse_service_file(value));
    service.files.push_back(std::move(file));
  }
  return service;
}

Result<void> check_environment(const model::EnvironmentMap& environment) {
  for (const auto& [name, value] : environment) {
    if (name.empty() || name.find('=') != std::string::npos || has_nul(name) || has_nul(value)) {
      return fail_field("env", "env has a name that is empty or holds '=', or a NUL");
    }
  }
  return {};
}

Result<void> read_limits(Reader& reader, model::ContainerSpec& container) {
  ASSIGN_OR_RETURN(const auto limits, reader.optional<Object>("limits"));
  if (!limits) {
    return {};
  }
  Reader inner(*limits, "limits");
  ASSIGN_OR_RETURN(container.millicpus, read_number(inner, "millicpus", 0, kLimitMax));
  ASSIGN_OR_RETURN(container.memory_mb, read_number(inner, "memory_mb", 0, kLimitMax));
  ASSIGN_OR_RETURN(container.pids, read_number(inner, "pids", 0, kLimitMax));
  return inner.finish();
}

Result<void> read_shared(Reader& reader, model::ContainerSpec& container) {
  ASSIGN_OR_RETURN(const auto hostname, reader.optional<std::string>("hostname"));
  container.hostname = hostname.value_or("");
  ASSIGN_OR_RETURN(auto hosts, reader.optional<model::EnvironmentMap>("hosts"));
  container.hosts = hosts ? std::move(*hosts) : model::EnvironmentMap{};
  const auto is_fine = [](const auto& host) {
    return is_host_name(host.first) && is_host_name(host.second);
  };
  if ((hostname && !is_host_name(*hostname)) || !std::ranges::all_of(container.hosts, is_fine)) {
    return fail_field("hosts", "hosts and hostname must be names and addresses");
  }
  ASSIGN_OR_RETURN(const auto mounts, reader.optional<Array>("mounts"));
  if (mounts && mounts->size() > kMountsMax) {
    return fail_field("mounts", "more than ", kMountsMax, " mounts");
  }
  for (const Value& value : mounts.value_or(Array{})) {
    ASSIGN_OR_RETURN(auto mount, parse_mount(value));
    container.mounts.push_back(std::move(mount));
  }
  ASSIGN_OR_RETURN(const auto service, reader.optional<Object>("service"));
  if (service) {
    ASSIGN_OR_RETURN(container.service, parse_service(*service));
  }
  ASSIGN_OR_RETURN(const auto registry, reader.optional<Object>("registry"));
  if (registry) {
    ASSIGN_OR_RETURN(container.registry, parse_registry(*registry));
  }
  return read_limits(reader, container);
}

}  // namespace

std::string_view to_string(model::Restart restart) {
  return kRestarts[static_cast<size_t>(restart)];
}

Result<model::Restart> parse_restart(std::string_view text) {
  return parse_word<model::Restart>(kRestarts, text, "restart");
}

Object to_json(const model::Healthcheck& check) {
  return {{"argv", list(check.argv)},
          {"interval_ms", check.interval_ms},
          {"timeout_ms", check.timeout_ms},
          {"retries", check.retries},
          {"start_period_ms", check.start_period_ms},
          {"start_interval_ms", check.start_interval_ms}};
}

Result<model::Healthcheck> parse_healthcheck(const Object& object) {
  Reader reader(object, "healthcheck");
  model::Healthcheck check;
  ASSIGN_OR_RETURN(const auto argv, read_words(reader, "argv"));
  if (!argv || argv->empty()) {
    return fail_field("healthcheck.argv", "healthcheck.argv is empty");
  }
  check.argv = *argv;
  ASSIGN_OR_RETURN(check.interval_ms,
                   read_number(reader, "interval_ms", check.interval_ms, kDurationMsMax));
  ASSIGN_OR_RETURN(check.timeout_ms,
                   read_number(reader, "timeout_ms", check.timeout_ms, kDurationMsMax));
  ASSIGN_OR_RETURN(check.retries, read_number(reader, "retries", check.retries, kCountMax));
  ASSIGN_OR_RETURN(check.start_period_ms,
                   read_number(reader, "start_period_ms", 0, kDurationMsMax));
  ASSIGN_OR_RETURN(check.start_interval_ms, read_number(reader, "start_interval_ms",
                                                        check.start_interval_ms, kDurationMsMax));
  RETURN_IF_ERROR(reader.finish());
  return check;
}

Object to_json(const model::RegistryAccess& access) {
  Object object;
  if (!access.username.empty()) {
    object["username"] = access.username;
  }
  if (!access.password.empty()) {
    object["password"] = access.password.reveal();  // the node fetches the image with it
  }
  if (!access.mirror.empty()) {
    object["mirror"] = access.mirror;
  }
  if (access.plain_http) {
    object["plain_http"] = true;
  }
  return object;
}

Result<model::RegistryAccess> parse_registry(const Object& object) {
  Reader reader(object, "registry");
  model::RegistryAccess access;
  ASSIGN_OR_RETURN(const auto username, reader.optional<std::string>("username"));
  ASSIGN_OR_RETURN(auto password, reader.optional<std::string>("password"));
  ASSIGN_OR_RETURN(const auto mirror, reader.optional<std::string>("mirror"));
  ASSIGN_OR_RETURN(const auto plain_http, reader.optional<bool>("plain_http"));
  RETURN_IF_ERROR(reader.finish());
  access.username = username.value_or("");
  access.password = base::Secret(std::move(password).value_or(""));
  access.mirror = mirror.value_or("");
  access.plain_http = plain_http.value_or(false);
  return access;
}

Object to_json(const model::ContainerSpec& container) {
  Object object{
      {"name", container.name}, {"image", container.image}, {"env", map(container.environment)}};
  if (container.user) {
    object["user"] = *container.user;
  }
  if (container.workdir) {
    object["workdir"] = *container.workdir;
  }
  if (container.run_entrypoint) {
    object["run_entrypoint"] = true;
  }
  if (container.await_credentials) {
    object["await_credentials"] = true;
  }
  if (!container.hostname.empty()) {
    object["hostname"] = container.hostname;
  }
  if (!container.hosts.empty()) {
    object["hosts"] = map(container.hosts);
  }
  if (!container.mounts.empty()) {
    Array mounts;
    for (const model::Mount& mount : container.mounts) {
      mounts.emplace_back(mount_json(mount));
    }
    object["mounts"] = std::move(mounts);
  }
  if (container.millicpus != 0 || container.memory_mb != 0 || container.pids != 0) {
    object["limits"] = Object{{"millicpus", container.millicpus},
                              {"memory_mb", container.memory_mb},
                              {"pids", container.pids}};
  }
  if (container.service) {
    object["service"] = service_json(*container.service);
  }
  if (Object access = to_json(container.registry); !access.empty()) {
    object["registry"] = std::move(access);
  }
  return object;
}

Result<model::ContainerSpec> parse_container(const Value& value) {
  if (!value.is_object()) {
    return fail_field("containers", "containers must hold objects");
  }
  Reader reader(value.get_object(), "containers");
  model::ContainerSpec container;
  ASSIGN_OR_RETURN(container.name, reader.required<std::string>("name"));
  ASSIGN_OR_RETURN(container.image, reader.required<std::string>("image"));
  ASSIGN_OR_RETURN(auto environment, reader.optional<model::EnvironmentMap>("env"));
  ASSIGN_OR_RETURN(container.user, reader.optional<std::string>("user"));
  ASSIGN_OR_RETURN(container.workdir, reader.optional<std::string>("workdir"));
  ASSIGN_OR_RETURN(const auto entrypoint, reader.optional<bool>("run_entrypoint"));
  ASSIGN_OR_RETURN(const auto awaits, reader.optional<bool>("await_credentials"));
  RETURN_IF_ERROR(read_shared(reader, container));
  RETURN_IF_ERROR(reader.finish());
  container.await_credentials = awaits.value_or(false);
  container.run_entrypoint = entrypoint.value_or(false);
  container.environment = environment ? std::move(*environment) : model::EnvironmentMap{};
  RETURN_IF_ERROR(check_environment(container.environment));
  if (!is_host_name(container.name)) {
    return fail_field("containers.name", "a container's name is empty, too long or broken");
  }
  if (container.image.empty() || has_nul(container.image)) {
    return fail_field("containers.image", "the image's name is empty or holds a NUL");
  }
  if (container.workdir && (!container.workdir->starts_with('/') || has_nul(*container.workdir))) {
    return fail_field("containers.workdir", "workdir must be an absolute path");
  }
  return container;
}

Result<std::vector<model::ContainerSpec>> parse_containers(const Array& values) {
  if (values.empty() || values.size() > kContainersMax) {
    return fail_field("containers", "containers must hold 1 to ", kContainersMax);
  }
  std::vector<model::ContainerSpec> containers;
  for (const Value& value : values) {
    ASSIGN_OR_RETURN(auto container, parse_container(value));
    const auto same = [&](const model::ContainerSpec& other) {
      return other.name == container.name;
    };
    if (std::ranges::any_of(containers, same)) {
      return fail_field("containers", "two containers are called '", container.name, "'");
    }
    containers.push_back(std::move(container));
  }
  return containers;
}

}  // namespace wire
