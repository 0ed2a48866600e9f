#include "compose/plan.h"

#include <algorithm>
#include <set>

#include "compose/host_names.h"
#include "compose/mounts.h"
#include "compose/project.h"
#include "compose/refusal.h"
#include "compose/service_reader.h"
#include "compose/values.h"

namespace compose {
namespace {

using base::Result;
using Services = std::vector<ReadService>;

// As a line of the node's protocol the whole sandbox has to fit.
constexpr size_t kPlanBytesMax = size_t{256} * 1024;

std::string field_of(const ReadService& service, std::string_view key) {
  return base::cat("services.", service.container.name, ".", key);
}

Result<void> check_networks(const Project& project) {
  for (const auto& [name, value] : project.networks) {
    const std::string field = base::cat("networks.", std::string_view(name));
    if (value.is_null()) {
      continue;
    }
    ASSIGN_OR_RETURN(const auto* const entries, read_mapping(value, field));
    for (const auto& [key, inner] : *entries) {
      const bool is_default = key == "driver" && scalar_text(inner) == "bridge";
      const bool is_off = (key == "external" || key == "internal" || key == "enable_ipv6") &&
                          scalar_text(inner) == "false";
      if (key != "name" && key != "labels" && !is_default && !is_off && !inner.is_null()) {
        return refuse(base::cat(field, ".", std::string_view(key)), "is not supported");
      }
    }
  }
  return {};
}

// All services share one network: a file that keeps two of them apart asks for what there is not.
Result<void> check_separation(const Services& services) {
  for (const ReadService& one : services) {
    for (const ReadService& other : services) {
      const bool meet = std::ranges::any_of(one.networks, [&](const std::string& network) {
        return std::ranges::find(other.networks, network) != other.networks.end();
      });
      if (!meet && one.own_network && other.own_network) {
        return refuse(field_of(one, "networks"), "keeps it apart from '", other.container.name,
                      "', but all services of a sandbox share one network");
      }
    }
  }
  return {};
}

Result<void> check_ports(const Services& services) {
  std::map<std::string, std::string> taken;
  for (const ReadService& service : services) {
    for (const std::string& port : service.ports) {
      const auto [at, fresh] = taken.emplace(port, service.container.name);
      if (!fresh) {
        return refuse(field_of(service, "ports"), at->second, " and ", service.container.name,
                      " both listen on ", port,
                      ", and all services of a sandbox share one network");
      }
    }
  }
  return {};
}

const ReadService* find(const Services& services, const std::string& name) {
  const auto found = std::ranges::find_if(
      services, [&](const ReadService& service) { return service.container.name == name; });
  return found == services.end() ? nullptr : &*found;
}

// Known, and able to become what is waited for. One that is left out by its profile may be missing
// where it is not required.
Result<void> check_dependencies(const Project& project, Services& services) {
  for (ReadService& service : services) {
    auto& wanted = service.container.service->depends_on;
    for (const model::Dependency& dependency : wanted) {
      const std::string field =
          base::cat(field_of(service, "depends_on"), ".", dependency.container);
      const ReadService* const other = find(services, dependency.container);
      const bool left_out =
          std::ranges::find(project.left_out, dependency.container) != project.left_out.end();
      if (other == nullptr && (dependency.required || !left_out)) {
        return refuse(field, left_out ? "its profile is not active" : "there is no such service");
      }
      if (other != nullptr && dependency.condition == model::Condition::healthy &&
          other->container.service->no_healthcheck) {
        return refuse(field, "'", dependency.container, "' has no healthcheck");
      }
    }
    std::erase_if(wanted, [&](const model::Dependency& dependency) {
      return find(services, dependency.container) == nullptr;
    });
  }
  return {};
}

// Depth first; `chain` is the way here.
Result<void> check_no_ring(const Services& services, const ReadService& from,
                           std::vector<std::string>& chain, std::set<std::string>& finished) {
  const std::string& name = from.container.name;
  if (finished.contains(name)) {
    return {};
  }
  const auto again = std::ranges::find(chain, name);
  if (again != chain.end()) {
    std::string ring;
    for (auto at = again; at != chain.end(); ++at) {
      ring += *at + " -> ";
    }
    return refuse(field_of(from, "depends_on"), "a ring: ", ring, name);
  }
  chain.push_back(name);
  for (const model::Dependency& dependency : from.container.service->depends_on) {
    RETURN_IF_ERROR(
        check_no_ring(services, *find(services, dependency.container), chain, finished));
  }
  chain.pop_back();
  finished.insert(name);
  return {};
}

// Every name of every service leads to where all of them are.
void share_names(Services& services) {
  std::map<std::string, std::string> names;
  for (const ReadService& service : services) {
    for (const std::string& name : service.names) {
      names.emplace(name, kLoopback);
    }
  }
  for (ReadService& service : services) {
    auto& hosts = service.container.hosts;
    hosts.insert(names.begin(), names.end());  // extra_hosts have been there before
  }
}

Result<void> check_size(const Services& services) {
  size_t bytes = 0;
  for (const ReadService& service : services) {
    for (const auto& [name, value] : service.container.environment) {
      bytes += name.size() + value.size();
    }
    for (const model::ServiceFile& file : service.container.service->files) {
      bytes += file.path.size() + file.content.size();
    }
    for (const auto* words :
         {&service.container.service->entrypoint, &service.container.service->command}) {
      for (const std::string& word : words->value_or(std::vector<std::string>{})) {
        bytes += word.size();
      }
    }
  }
  if (bytes > kPlanBytesMax) {
    return refuse("services", "commands, environments and files of all services exceed ",
                  kPlanBytesMax, " bytes");
  }
  return {};
}

Result<Services> read_all(const Project& project, const Input& input, bool complete) {
  RETURN_IF_ERROR(check_volumes(project));
  RETURN_IF_ERROR(check_networks(project));
  Services services;
  for (size_t i = 0; i < project.services.size(); ++i) {
    ASSIGN_OR_RETURN(ReadService service, read_service(project, input, i, complete));
    services.push_back(std::move(service));
  }
  for (const auto& [name, image] : input.images) {
    if (find(services, name) == nullptr) {
      return refuse("builds", "there is no service '", name, "'");
    }
  }
  RETURN_IF_ERROR(check_separation(services));
  RETURN_IF_ERROR(check_ports(services));
  RETURN_IF_ERROR(check_dependencies(project, services));
  std::set<std::string> finished;
  for (const ReadService& service : services) {
    std::vector<std::string> chain;
    RETURN_IF_ERROR(check_no_ring(services, service, chain, finished));
  }
  RETURN_IF_ERROR(check_size(services));
  return services;
}

}  // namespace

Result<std::vector<model::ContainerSpec>> compile(const Input& input) {
  ASSIGN_OR_RETURN(const Project project, read_project(input));
  if (!project.missing.empty()) {
    return refuse("services", "the text of '", project.missing.front(),
                  "', which a service extends, is not given in 'env_files'");
  }
  ASSIGN_OR_RETURN(Services services, read_all(project, input, true));
  share_names(services);
  std::vector<model::ContainerSpec> containers;
  containers.reserve(services.size());
  for (ReadService& service : services) {
    containers.push_back(std::move(service.container));
  }
  return containers;
}

Result<Needs> needs_of(const Input& input) {
  ASSIGN_OR_RETURN(const Project project, read_project(input));
  Needs needs;
  for (const std::string& path : project.missing) {
    needs.env_files.push_back({.path = path});
  }
  if (!needs.env_files.empty()) {
    return needs;  // what those files need is not known yet
  }
  ASSIGN_OR_RETURN(Services services, read_all(project, input, false));
  for (ReadService& service : services) {
    needs.services.push_back(service.container.name);
    if (service.build) {
      needs.builds.push_back(std::move(*service.build));
    }
    for (EnvFileNeed& file : service.env_files) {
      needs.env_files.push_back(std::move(file));
    }
  }
  return needs;
}

}  // namespace compose
