#include "compose/service_reader.h"

#include <algorithm>
#include <array>
#include <set>

#include "base/text.h"
#include "compose/env_file.h"
#include "compose/given_files.h"
#include "compose/host_names.h"
#include "compose/merge.h"
#include "compose/mounts.h"
#include "compose/ports.h"
#include "compose/refusal.h"
#include "compose/supervision.h"
#include "compose/values.h"

namespace compose {
namespace {

using base::Result;
using wire::json::Object;
using wire::json::Value;

constexpr int64_t kBytesPerMb = int64_t{1} << 20;
constexpr int64_t kPidsMax = 1'000'000;
// What every container may do anyway: to ask for one of these changes nothing.
constexpr std::array<std::string_view, 14> kGivenCapabilities{
    "CHOWN",   "DAC_OVERRIDE", "FSETID",           "FOWNER",
    "MKNOD",   "NET_RAW",      "SETGID",           "SETUID",
    "SETFCAP", "SETPCAP",      "NET_BIND_SERVICE", "SYS_CHROOT",
    "KILL",    "AUDIT_WRITE"};
// They say nothing that would make a difference here (docs/compose.md).
constexpr std::array<std::string_view, 11> kWithoutEffect{
    "labels",   "annotations", "init",        "stop_signal", "stop_grace_period", "shm_size",
    "profiles", "attach",      "pull_policy", "logging",     "oom_score_adj"};

class ServiceReader {
 public:
  ServiceReader(const Project& project, const Input& input, size_t number, bool complete)
      : project_(project),
        input_(input),
        name_(project.services[number].first),
        object_(project.services[number].second),
        complete_(complete) {}

  Result<ReadService> read() {
    out_.container.name = name_;
    out_.container.service.emplace();
    out_.names.push_back(name_);
    RETURN_IF_ERROR(read_image());
    RETURN_IF_ERROR(read_command());
    RETURN_IF_ERROR(read_environment());
    RETURN_IF_ERROR(read_process());
    RETURN_IF_ERROR(read_names());
    RETURN_IF_ERROR(read_networks());
    RETURN_IF_ERROR(read_limits());
    RETURN_IF_ERROR(read_deploy());
    if (const Value* const restart = take("restart")) {
      RETURN_IF_ERROR(read_restart(*restart, service(), path("restart")));
    }
    if (const Value* const healthcheck = take("healthcheck")) {
      ASSIGN_OR_RETURN(service().healthcheck, read_healthcheck(*healthcheck, path("healthcheck")));
      service().no_healthcheck = !service().healthcheck;
    }
    RETURN_IF_ERROR(read_dependencies());
    RETURN_IF_ERROR(read_files("configs", FileKind::config));
    RETURN_IF_ERROR(read_files("secrets", FileKind::secret));
    ASSIGN_OR_RETURN(out_.container.mounts,
                     read_mounts(project_, name_, take("volumes"), take("tmpfs")));
    ASSIGN_OR_RETURN(out_.ports, read_ports(name_, take("ports"), take("expose")));
    RETURN_IF_ERROR(read_refused());
    return finish();
  }

 private:
  // The key's value, noted as known; null counts as absent.
  const Value* take(std::string_view key) {
    known_.insert(std::string(key));
    const Value* const value = object_.if_contains(key);
    return value == nullptr || value->is_null() ? nullptr : value;
  }
  [[nodiscard]] std::string path(std::string_view key) const {
    return base::cat("services.", name_, ".", key);
  }
  model::Service& service() { return *out_.container.service; }

  Result<void> read_image() {
    if (const Value* const image = take("image")) {
      ASSIGN_OR_RETURN(out_.container.image, read_text(*image, path("image")));
    }
    const Value* const build = take("build");
    if (build != nullptr) {
      RETURN_IF_ERROR(read_build(*build));
      const auto built = input_.images.find(name_);
      if (built != input_.images.end()) {
        out_.container.image = built->second;
      } else if (complete_) {
        return refuse(path("build"), "needs a finished build: name its id in 'builds'");
      }
    } else if (input_.images.contains(name_)) {
      return refuse(path("build"), "'builds' names a service that has no build");
    }
    if (build == nullptr && out_.container.image.empty()) {
      return refuse(path("image"), "a service needs an image or a build");
    }
    return {};
  }

  Result<void> read_build(const Value& value) {
    const std::string field = path("build");
    if (!value.is_object()) {
      return refuse(field, "must be a folder or a mapping");
    }
    BuildNeed need{.service = name_, .context = "."};
    for (const auto& [key, inner] : value.get_object()) {
      const std::string where = base::cat(field, ".", std::string_view(key));
      if (inner.is_null()) {
        continue;
      }
      if (key == "context") {
        ASSIGN_OR_RETURN(need.context, read_text(inner, where));
      } else if (key == "dockerfile") {
        ASSIGN_OR_RETURN(need.dockerfile, read_text(inner, where));
      } else if (key == "dockerfile_inline") {
        ASSIGN_OR_RETURN(need.dockerfile_inline, read_text(inner, where));
      } else if (key == "secrets") {
        if (!inner.is_array()) {
          return refuse(where, "must be a list");
        }
        for (const Value& item : inner.get_array()) {
          ASSIGN_OR_RETURN(auto secret, read_build_secret(project_, item, where));
          need.secrets.push_back(std::move(secret));
        }
      } else if (key == "target") {
        ASSIGN_OR_RETURN(need.target, read_text(inner, where));
      } else if (key == "args") {
        ASSIGN_OR_RETURN(const Object arguments, as_mapping(inner, where));
        put_variables(arguments, need.arguments);
      } else if (key != "pull" && key != "tags" && key != "labels" && key != "cache_from" &&
                 key != "no_cache") {
        return refuse(where, "is not supported");
      }
    }
    if (!need.dockerfile.empty() && !need.dockerfile_inline.empty()) {
      return refuse(field + ".dockerfile_inline", "excludes 'dockerfile'");
    }
    out_.build = std::move(need);
    return {};
  }

  Result<void> read_files(std::string_view key, FileKind kind) {
    const Value* const value = take(key);
    if (value == nullptr) {
      return {};
    }
    std::vector<std::string> needed;
    ASSIGN_OR_RETURN(
        auto files, read_given_files(project_, input_, kind, *value, path(key), complete_, needed));
    std::ranges::move(files, std::back_inserter(service().files));
    for (std::string& one : needed) {
      out_.env_files.push_back({.path = std::move(one)});
    }
    return {};
  }

  // A name without a value has that of the variable, or is left out.
  void put_variables(const Object& from, model::EnvironmentMap& into) const {
    for (const auto& [key, value] : from) {
      const std::string variable(key);
      if (value.is_string()) {
        into[variable] = std::string(value.get_string());
      } else if (const auto found = input_.variables.find(variable);
                 found != input_.variables.end()) {
        into[variable] = found->second;
      }
    }
  }

  Result<void> read_command() {
    // An empty text or list is one of no words, which is not the same as none given.
    if (const Value* const entrypoint = take("entrypoint")) {
      ASSIGN_OR_RETURN(service().entrypoint, read_words(*entrypoint, path("entrypoint")));
    }
    if (const Value* const command = take("command")) {
      ASSIGN_OR_RETURN(service().command, read_words(*command, path("command")));
    }
    return {};
  }

  Result<void> read_environment() {
    if (const Value* const files = take("env_file")) {
      RETURN_IF_ERROR(read_env_files(*files));
    }
    if (const Value* const environment = take("environment")) {
      ASSIGN_OR_RETURN(const Object values, as_mapping(*environment, path("environment")));
      put_variables(values, out_.container.environment);
    }
    for (const auto& [name, value] : out_.container.environment) {
      if (name.empty() || name.find('=') != std::string::npos ||
          value.find('\0') != std::string::npos) {
        return refuse(path("environment"), "a variable's name is empty or holds '=', or a NUL");
      }
    }
    return {};
  }

  Result<void> read_env_files(const Value& value) {
    const wire::json::Array items = value.is_array() ? value.get_array() : wire::json::Array{value};
    const std::string field = path("env_file");
    for (const Value& item : items) {
      EnvFileNeed need;
      if (item.is_object()) {
        for (const auto& [key, inner] : item.get_object()) {
          if (key == "path") {
            ASSIGN_OR_RETURN(need.path, read_text(inner, field));
          } else if (key == "required") {
            ASSIGN_OR_RETURN(need.required, read_bool(inner, field));
          } else {
            return refuse(base::cat(field, ".", std::string_view(key)), "is not supported");
          }
        }
      } else {
        ASSIGN_OR_RETURN(need.path, read_text(item, field));
      }
      const auto text = input_.env_files.find(need.path);
      if (text != input_.env_files.end()) {
        ASSIGN_OR_RETURN(const auto values, parse_env_file(text->second, input_.variables,
                                                           base::cat(field, " ", need.path)));
        for (const auto& [name, one] : values) {
          out_.container.environment[name] = one;
        }
      } else if (need.required && complete_) {
        return refuse(field, "the text of '", need.path, "' is not given in 'env_files'");
      }
      out_.env_files.push_back(std::move(need));
    }
    return {};
  }

  Result<void> read_process() {
    if (const Value* const user = take("user")) {
      ASSIGN_OR_RETURN(out_.container.user, read_text(*user, path("user")));
    }
    if (const Value* const folder = take("working_dir")) {
      ASSIGN_OR_RETURN(const std::string text, read_text(*folder, path("working_dir")));
      if (!text.starts_with('/')) {
        return refuse(path("working_dir"), "must be an absolute path");
      }
      out_.container.workdir = text;
    }
    if (const Value* const terminal = take("tty")) {
      ASSIGN_OR_RETURN(service().terminal, read_bool(*terminal, path("tty")));
    }
    if (const Value* const input = take("stdin_open")) {
      ASSIGN_OR_RETURN(service().input, read_bool(*input, path("stdin_open")));
    }
    return {};
  }

  Result<void> read_names() {
    if (const Value* const hostname = take("hostname")) {
      ASSIGN_OR_RETURN(out_.container.hostname, read_text(*hostname, path("hostname")));
      RETURN_IF_ERROR(check_host_name(out_.container.hostname, path("hostname")));
      out_.names.push_back(out_.container.hostname);
    }
    if (const Value* const name = take("container_name")) {
      ASSIGN_OR_RETURN(std::string text, read_text(*name, path("container_name")));
      RETURN_IF_ERROR(check_host_name(text, path("container_name")));
      out_.names.push_back(std::move(text));
    }
    if (const Value* const links = take("links")) {
      ASSIGN_OR_RETURN(const auto texts, read_texts(*links, path("links")));
      for (const std::string& link : texts) {
        const std::string alias = link.substr(link.find(':') + 1);  // the whole without a colon
        RETURN_IF_ERROR(check_host_name(alias, path("links")));
        out_.container.hosts[alias] = std::string(kLoopback);
      }
    }
    if (const Value* const hosts = take("extra_hosts")) {
      ASSIGN_OR_RETURN(const Object entries, as_mapping(*hosts, path("extra_hosts"), ':'));
      for (const auto& [key, value] : entries) {
        const std::string name(key);
        RETURN_IF_ERROR(check_host_name(name, path("extra_hosts")));
        const std::string address = value.is_string() ? std::string(value.get_string()) : "";
        if (!is_address(address)) {
          return refuse(path("extra_hosts"), "'", name, "' must be given an address");
        }
        out_.container.hosts[name] = address;
      }
    }
    return {};
  }

  Result<void> read_networks() {
    if (const Value* const mode = take("network_mode")) {
      ASSIGN_OR_RETURN(const std::string text, read_text(*mode, path("network_mode")));
      out_.own_network = !text.starts_with("service:");
      if (out_.own_network && text != "bridge" && text != "default") {
        return refuse(path("network_mode"), "'", text,
                      "' is not supported: the sandbox's 'network' says what all may reach");
      }
    }
    const Value* const networks = take("networks");
    if (networks == nullptr) {
      out_.networks.emplace_back("default");
      return {};
    }
    ASSIGN_OR_RETURN(const Object entries, by_name(*networks, path("networks")));
    for (const auto& [key, value] : entries) {
      const std::string name(key);
      const std::string field = base::cat(path("networks"), ".", name);
      if (name != "default" && !project_.networks.contains(name)) {
        return refuse(field, "there is no such network");
      }
      out_.networks.push_back(name);
      if (value.is_null()) {
        continue;
      }
      if (!value.is_object()) {
        return refuse(field, "must be a mapping");
      }
      for (const auto& [inner, aliases] : value.get_object()) {
        if (inner != "aliases") {
          return refuse(base::cat(field, ".", std::string_view(inner)), "is not supported");
        }
        ASSIGN_OR_RETURN(const auto texts, read_texts(aliases, field + ".aliases"));
        for (const std::string& alias : texts) {
          RETURN_IF_ERROR(check_host_name(alias, field + ".aliases"));
          out_.names.push_back(alias);
        }
      }
    }
    return {};
  }

  Result<void> read_limits() {
    if (const Value* const memory = take("mem_limit")) {
      RETURN_IF_ERROR(read_memory(*memory, path("mem_limit")));
    }
    if (const Value* const cpus = take("cpus")) {
      ASSIGN_OR_RETURN(out_.container.millicpus, read_millicpus(*cpus, path("cpus")));
    }
    if (const Value* const pids = take("pids_limit")) {
      ASSIGN_OR_RETURN(out_.container.pids, read_integer(*pids, path("pids_limit"), 8, kPidsMax));
    }
    take("mem_reservation");  // a wish, not a limit
    take("cpu_shares");
    return {};
  }

  Result<void> read_memory(const Value& value, const std::string& field) {
    ASSIGN_OR_RETURN(const int64_t bytes, read_bytes(value, field));
    out_.container.memory_mb = (bytes + kBytesPerMb - 1) / kBytesPerMb;
    return {};
  }

  Result<void> read_deploy() {
    const Value* const deploy = take("deploy");
    if (deploy == nullptr) {
      return {};
    }
    ASSIGN_OR_RETURN(const Object* const entries, read_mapping(*deploy, path("deploy")));
    for (const auto& [key, value] : *entries) {
      const std::string field = base::cat(path("deploy"), ".", std::string_view(key));
      if (value.is_null() || key == "labels" || key == "update_config" ||
          key == "rollback_config") {
        continue;
      }
      if (key == "resources") {
        RETURN_IF_ERROR(read_resources(value, field));
      } else if (key == "restart_policy") {
        RETURN_IF_ERROR(read_restart_policy(value, service(), field));
      } else if (key == "replicas") {
        RETURN_IF_ERROR(read_integer(value, field, 1, 1));
      } else if (key != "mode" || scalar_text(value) != "replicated") {
        return refuse(field, "is not supported");
      }
    }
    return {};
  }

  Result<void> read_resources(const Value& value, const std::string& field) {
    ASSIGN_OR_RETURN(const Object* const entries, read_mapping(value, field));
    for (const auto& [key, inner] : *entries) {
      if (inner.is_null() || key == "reservations") {
        continue;
      }
      const std::string where = base::cat(field, ".", std::string_view(key));
      if (key != "limits") {
        return refuse(where, "is not supported");
      }
      ASSIGN_OR_RETURN(const Object* const limits, read_mapping(inner, where));
      for (const auto& [name, limit] : *limits) {
        const std::string what = base::cat(where, ".", std::string_view(name));
        if (name == "cpus") {
          ASSIGN_OR_RETURN(out_.container.millicpus, read_millicpus(limit, what));
        } else if (name == "memory") {
          RETURN_IF_ERROR(read_memory(limit, what));
        } else if (name == "pids") {
          ASSIGN_OR_RETURN(out_.container.pids, read_integer(limit, what, 8, kPidsMax));
        } else {
          return refuse(what, "is not supported");
        }
      }
    }
    return {};
  }

  Result<void> read_dependencies() {
    const Value* const value = take("depends_on");
    if (value == nullptr) {
      return {};
    }
    ASSIGN_OR_RETURN(const Object entries, by_name(*value, path("depends_on")));
    for (const auto& [key, inner] : entries) {
      const std::string field = base::cat(path("depends_on"), ".", std::string_view(key));
      model::Dependency dependency{.container = std::string(key)};
      if (!inner.is_null()) {
        ASSIGN_OR_RETURN(const Object* const options, read_mapping(inner, field));
        RETURN_IF_ERROR(read_dependency(*options, dependency, field));
      }
      service().depends_on.push_back(std::move(dependency));
    }
    return {};
  }

  static Result<void> read_dependency(const Object& options, model::Dependency& dependency,
                                      const std::string& field) {
    for (const auto& [key, value] : options) {
      const std::string where = base::cat(field, ".", std::string_view(key));
      if (key == "condition") {
        ASSIGN_OR_RETURN(const std::string text, read_text(value, where));
        if (text == "service_started") {
          dependency.condition = model::Condition::started;
        } else if (text == "service_healthy") {
          dependency.condition = model::Condition::healthy;
        } else if (text == "service_completed_successfully") {
          dependency.condition = model::Condition::completed;
        } else {
          return refuse(where,
                        "must be service_started, service_healthy or "
                        "service_completed_successfully");
        }
      } else if (key == "required") {
        ASSIGN_OR_RETURN(dependency.required, read_bool(value, where));
      } else if (key != "restart") {  // of `docker compose restart`, which there is none of
        return refuse(where, "is not supported");
      }
    }
    return {};
  }

  // Keys that are fine as long as they ask for nothing.
  Result<void> read_refused() {
    for (const std::string_view key : {"privileged", "read_only"}) {
      if (const Value* const value = take(key)) {
        ASSIGN_OR_RETURN(const bool wanted, read_bool(*value, path(key)));
        if (wanted) {
          return refuse(path(key), "is not supported");
        }
      }
    }
    if (const Value* const scale = take("scale")) {
      RETURN_IF_ERROR(read_integer(*scale, path("scale"), 1, 1));
    }
    if (const Value* const platform = take("platform")) {
      if (scalar_text(*platform) != "linux/amd64") {
        return refuse(path("platform"), "only linux/amd64 is supported");
      }
    }
    if (const Value* const capabilities = take("cap_add")) {
      ASSIGN_OR_RETURN(const auto names, read_texts(*capabilities, path("cap_add")));
      for (const std::string& name : names) {
        const std::string_view bare =
            name.starts_with("CAP_") ? std::string_view(name).substr(4) : std::string_view(name);
        if (std::ranges::find(kGivenCapabilities, bare) == kGivenCapabilities.end()) {
          return refuse(path("cap_add"), "'", name, "' is not supported");
        }
      }
    }
    return {};
  }

  Result<ReadService> finish() {
    for (const std::string_view key : kWithoutEffect) {
      known_.insert(std::string(key));
    }
    for (const auto& [key, value] : object_) {
      const std::string name(key);
      if (!known_.contains(name) && !name.starts_with("x-")) {
        return refuse(path(name), "is not supported");
      }
    }
    return std::move(out_);
  }

  const Project& project_;
  const Input& input_;
  const std::string& name_;
  const Object& object_;
  bool complete_;
  std::set<std::string> known_;
  ReadService out_;
};

}  // namespace

Result<ReadService> read_service(const Project& project, const Input& input, size_t number,
                                 bool complete) {
  return ServiceReader(project, input, number, complete).read();
}

}  // namespace compose
