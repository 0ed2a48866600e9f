#include "service/create_request.h"

#include <algorithm>
#include <initializer_list>

#include "model/image_reference.h"
#include "service/compose_request.h"
#include "service/cpus.h"
#include "wire/json.h"

namespace service {
namespace {

using base::ErrorCode;
using base::fail_field;
using base::Result;
using wire::json::Reader;
using Labels = std::map<std::string, std::string>;

constexpr size_t kLabelsMax = 32;
constexpr double kMillicpusPerCpu = 1000;
constexpr size_t kLabelKeyBytesMax = 63;
constexpr size_t kLabelValueBytesMax = 256;
// Together with the kernel's limit of one string (128 KiB) and the node's line of 1 MiB.
constexpr size_t kEnvironmentNamesMax = 1024;
constexpr size_t kEnvironmentNameBytesMax = 256;
constexpr size_t kEnvironmentValueBytesMax = size_t{120} * 1024;
constexpr size_t kUserBytesMax = 256;
constexpr size_t kPathBytesMax = 4095;  // PATH_MAX without its NUL

bool has_nul(std::string_view text) { return text.find('\0') != std::string_view::npos; }

std::unexpected<base::Error> not_supported(std::string_view field, std::string_view what) {
  auto error = base::fail(ErrorCode::not_supported, what, " is not supported yet");
  error.error().details.emplace_back("field", field);
  return error;
}

std::unexpected<base::Error> quota_never(std::string_view field, int64_t most,
                                         std::string_view unit) {
  auto error = base::fail(ErrorCode::quota_never, "'", field,
                          "' exceeds what any sandbox of the team can have: ", most, " ", unit);
  error.error().details.emplace_back("field", field);
  return error;
}

// `derived`: what stands for it where it is not given; 0: nothing does.
Result<int64_t> read_cpus(Reader& reader, int64_t most, int64_t derived) {
  ASSIGN_OR_RETURN(const auto given, reader.optional<double>("cpus"));
  if (!given && derived == 0) {
    RETURN_IF_ERROR(reader.required<double>("cpus"));
  }
  const double cpus = given.value_or(static_cast<double>(derived) / kMillicpusPerCpu);
  if (cpus > kCpusMax) {
    return quota_never("cpus", most, "thousandths of a cpu");
  }
  ASSIGN_OR_RETURN(const int64_t millicpus, millicpus_of("cpus", cpus));
  if (millicpus < kMillicpusMin) {
    return fail_field("cpus", "'cpus' must be at least 0.01");
  }
  if (millicpus > most) {
    return quota_never("cpus", most, "thousandths of a cpu");
  }
  return millicpus;
}

Result<int64_t> check_megabytes(std::string_view name, int64_t value, int64_t least, int64_t most) {
  if (value < least) {
    return fail_field(name, "'", name, "' must be at least ", least);
  }
  if (value > most || value > kMegabytesMax) {
    return quota_never(name, most, "MB");
  }
  return value;
}

// Of a team's maximum 0 is none.
int64_t least_of(int64_t capacity, int64_t team_max) {
  return team_max == 0 ? capacity : std::min(capacity, team_max);
}

// `sum`: of the containers' own limits, where each has one.
Result<model::Resources> read_resources(Reader& reader, const CreateLimits& limits,
                                        const model::Resources& sum) {
  const Team& team = limits.team;
  const Capacity most{.millicpus = least_of(limits.capacity.millicpus, team.max_millicpus),
                      .memory_mb = least_of(limits.capacity.memory_mb, team.max_memory_mb),
                      .storage_mb = least_of(limits.capacity.storage_mb, team.max_storage_mb)};
  model::Resources resources;
  ASSIGN_OR_RETURN(resources.millicpus, read_cpus(reader, most.millicpus, sum.millicpus));
  ASSIGN_OR_RETURN(const auto given_memory, reader.optional<int64_t>("memory_mb"));
  if (!given_memory && sum.memory_mb == 0) {
    RETURN_IF_ERROR(reader.required<int64_t>("memory_mb"));
  }
  const int64_t memory = given_memory.value_or(sum.memory_mb);
  ASSIGN_OR_RETURN(resources.memory_mb,
                   check_megabytes("memory_mb", memory, kMemoryMbMin, most.memory_mb));
  ASSIGN_OR_RETURN(const auto storage, reader.optional<int64_t>("storage_mb"));
  // The default is no wish: where the team may have less, it is that.
  const int64_t storage_default = std::min(team.default_storage_mb, most.storage_mb);
  ASSIGN_OR_RETURN(resources.storage_mb,
                   check_megabytes("storage_mb", storage.value_or(storage_default), kStorageMbMin,
                                   most.storage_mb));
  resources.pids = team.pids;
  return resources;
}

Result<Labels> check_labels(Labels labels) {
  if (labels.size() > kLabelsMax) {
    return fail_field("labels", "more than ", kLabelsMax, " labels");
  }
  for (const auto& [key, value] : labels) {
    if (key.empty() || key.size() > kLabelKeyBytesMax || has_nul(key)) {
      return fail_field("labels", "a label's key must have 1 to ", kLabelKeyBytesMax, " bytes");
    }
    if (value.size() > kLabelValueBytesMax || has_nul(value)) {
      return fail_field("labels", "a label's value must have at most ", kLabelValueBytesMax,
                        " bytes");
    }
  }
  return labels;
}

// Messages name no variable's value: they may be secrets.
Result<model::EnvironmentMap> check_environment(model::EnvironmentMap environment) {
  if (environment.size() > kEnvironmentNamesMax) {
    return fail_field("env", "more than ", kEnvironmentNamesMax, " variables");
  }
  for (const auto& [name, value] : environment) {
    if (name.empty() || name.size() > kEnvironmentNameBytesMax || has_nul(name) ||
        name.find('=') != std::string::npos) {
      return fail_field("env", "a variable's name must have 1 to ", kEnvironmentNameBytesMax,
                        " bytes without '=' and NUL");
    }
    if (has_nul(value) || value.size() > kEnvironmentValueBytesMax) {
      return fail_field("env", "the value of '", name, "' contains NUL or is too long");
    }
  }
  return environment;
}

// Fields that are documented and come with later features.
Result<void> refuse_unbuilt(Reader& reader, const Team& team) {
  ASSIGN_OR_RETURN(const auto isolation, reader.optional<std::string>("isolation"));
  if (isolation && isolation != "container" && isolation != "gvisor" && isolation != "vm") {
    return fail_field("isolation", "'isolation' must be container, gvisor or vm");
  }
  const std::string level = isolation.value_or(team.isolation.front());
  if (level != "container") {
    return not_supported("isolation", "this isolation level");
  }
  if (std::ranges::find(team.isolation, level) == team.isolation.end()) {
    return fail_field("isolation", "the team has no isolation level '", level, "'");
  }
  return {};
}

Result<int64_t> read_seconds(Reader& reader, std::string_view name, int64_t most) {
  ASSIGN_OR_RETURN(const auto value, reader.optional<int64_t>(name));
  if (value && (*value < 1 || *value > most)) {
    return fail_field(name, "'", name, "' must be from 1 to the team's ", most);
  }
  return value.value_or(most);
}

// No blank, no control character: neither is in any name of a passwd file.
bool is_user_char(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte > 0x20 && byte != 0x7F;
}

Result<void> read_process_defaults(Reader& reader, model::ContainerSpec& container) {
  ASSIGN_OR_RETURN(auto environment, reader.optional<model::EnvironmentMap>("env"));
  ASSIGN_OR_RETURN(container.environment,
                   check_environment(std::move(environment).value_or(model::EnvironmentMap{})));
  ASSIGN_OR_RETURN(container.user, reader.optional<std::string>("user"));
  if (container.user && (container.user->empty() || container.user->size() > kUserBytesMax ||
                         !std::ranges::all_of(*container.user, is_user_char))) {
    return fail_field("user", "'user' must be a name or number, optionally ':' and a group");
  }
  ASSIGN_OR_RETURN(container.workdir, reader.optional<std::string>("workdir"));
  if (container.workdir &&
      (!container.workdir->starts_with('/') || container.workdir->size() > kPathBytesMax ||
       has_nul(*container.workdir))) {
    return fail_field("workdir", "'workdir' must be an absolute path");
  }
  return {};
}

// Whether a prefix covers the name: whole components of it, so that "ghcr.io/acme" is no
// "ghcr.io/acme-evil".
bool covers(std::string_view prefix, std::string_view name) {
  constexpr std::string_view kSeparators = "/:@";
  if (!name.starts_with(prefix)) {
    return false;
  }
  return name.size() == prefix.size() || prefix.empty() ||
         kSeparators.find(prefix.back()) != std::string_view::npos ||
         kSeparators.find(name[prefix.size()]) != std::string_view::npos;
}

// A name that may be an import's stays as it is: the node looks among its imports first and then
// takes it for a reference. Everything else is normalised.
Result<std::string> read_image(Reader& reader, const CreateLimits& limits) {
  ASSIGN_OR_RETURN(const auto image, reader.required<std::string>("image"));
  return check_image(image, limits);
}

}  // namespace

Result<std::string> check_image(const std::string& image, const CreateLimits& limits) {
  if (model::is_build_name(image)) {
    return image;  // whose it is, the store knows
  }
  if (model::is_local_image_path(image)) {
    if (!limits.local_images) {
      return base::fail(ErrorCode::image_not_allowed,
                        "images on the node's own disk are not allowed here");
    }
    RETURN_IF_ERROR(check_image_allowed(limits.team, image));
    return image;
  }
  ASSIGN_OR_RETURN(const auto reference, model::parse_image_reference(image));
  RETURN_IF_ERROR(check_image_allowed(limits.team, reference.normalised()));
  return model::is_local_image_name(image) ? image : reference.normalised();
}

Result<void> check_image_allowed(const Team& team, std::string_view normalised) {
  const auto covered = [&](const std::string& prefix) { return covers(prefix, normalised); };
  if (team.image_prefixes.empty() || std::ranges::any_of(team.image_prefixes, covered)) {
    return {};
  }
  return base::fail(ErrorCode::image_not_allowed, "team '", team.name, "' may not use '",
                    normalised, "'");
}

Result<model::NetworkPolicy> parse_network(const wire::json::Object& object,
                                           const std::string& field) {
  Reader reader(object, field);
  ASSIGN_OR_RETURN(const auto mode, reader.required<std::string>("mode"));
  ASSIGN_OR_RETURN(const auto allow, reader.optional<std::vector<std::string>>("allow"));
  RETURN_IF_ERROR(reader.finish());
  return model::make_network_policy(mode, allow, field);
}

wire::json::Object network_json(const model::NetworkPolicy& policy) {
  wire::json::Object out{{"mode", model::to_string(policy.mode)}};
  if (policy.mode == model::NetworkMode::allow) {
    wire::json::Array entries;
    for (const std::string& entry : policy.allow) {
      entries.emplace_back(entry);
    }
    out["allow"] = std::move(entries);
  }
  return out;
}

model::NetworkPolicy team_network(const Team& team) {
  return model::parse_network_policy(team.network)
      .value_or(model::NetworkPolicy{.mode = model::NetworkMode::none, .allow = {}});
}

Result<CreateRequest> parse_create(const wire::json::Object& object, const CreateLimits& limits) {
  const Team& team = limits.team;
  Reader reader(object);
  CreateRequest request;
  model::ContainerSpec container;
  RETURN_IF_ERROR(refuse_unbuilt(reader, team));
  ASSIGN_OR_RETURN(auto composed, read_compose(reader, limits));
  if (!composed) {
    ASSIGN_OR_RETURN(container.image, read_image(reader, limits));
  }
  ASSIGN_OR_RETURN(
      request.spec.resources,
      read_resources(reader, limits, composed ? sum_of(*composed) : model::Resources{}));
  ASSIGN_OR_RETURN(auto labels, reader.optional<Labels>("labels"));
  ASSIGN_OR_RETURN(request.labels, check_labels(std::move(labels).value_or(Labels{})));
  RETURN_IF_ERROR(read_process_defaults(reader, container));
  ASSIGN_OR_RETURN(const auto entrypoint, reader.optional<bool>("run_entrypoint"));
  container.run_entrypoint = entrypoint.value_or(false);
  if (composed) {
    RETURN_IF_ERROR(put_over_main(composed->front(), std::move(container), reader));
    request.spec.containers = std::move(*composed);
  } else {
    request.spec.containers.push_back(std::move(container));
  }
  ASSIGN_OR_RETURN(const auto pull, reader.optional<std::string>("pull"));
  if (pull && *pull != "missing" && *pull != "always") {
    return fail_field("pull", "'pull' must be missing or always");
  }
  request.spec.always_pull = pull == "always";
  ASSIGN_OR_RETURN(request.lease_sec, read_seconds(reader, "lease_sec", team.lease_sec));
  ASSIGN_OR_RETURN(request.max_lifetime_sec,
                   read_seconds(reader, "max_lifetime_sec", team.max_lifetime_sec));
  ASSIGN_OR_RETURN(const auto network, reader.optional<wire::json::Object>("network"));
  if (network) {
    ASSIGN_OR_RETURN(request.spec.network, parse_network(*network, "network"));
  } else {
    request.spec.network = team_network(team);
  }
  ASSIGN_OR_RETURN(const auto no_new_privileges, reader.optional<bool>("no_new_privileges"));
  request.spec.no_new_privileges = no_new_privileges.value_or(false);
  ASSIGN_OR_RETURN(const auto wanted_team, reader.optional<std::string>("team"));
  RETURN_IF_ERROR(reader.finish());
  if (wanted_team && *wanted_team != team.name) {
    return base::fail(ErrorCode::not_found, "team '", *wanted_team, "' does not exist");
  }
  return request;
}

Result<PatchRequest> parse_patch(std::string_view body, const Team& team) {
  ASSIGN_OR_RETURN(const auto object, wire::json::parse_object(body));
  Reader reader(object);
  PatchRequest request;
  ASSIGN_OR_RETURN(auto labels, reader.optional<Labels>("labels"));
  if (labels) {
    ASSIGN_OR_RETURN(request.labels, check_labels(std::move(*labels)));
  }
  ASSIGN_OR_RETURN(const auto lease, reader.optional<int64_t>("lease_sec"));
  if (lease) {
    ASSIGN_OR_RETURN(request.lease_sec, read_seconds(reader, "lease_sec", team.lease_sec));
  }
  ASSIGN_OR_RETURN(const auto network, reader.optional<wire::json::Object>("network"));
  if (network) {
    ASSIGN_OR_RETURN(request.network, parse_network(*network, "network"));
  }
  RETURN_IF_ERROR(reader.finish());
  return request;
}

}  // namespace service
