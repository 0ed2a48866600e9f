#include "service/create_request.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "model/image_reference.h"
#include "wire/json.h"

namespace service {
namespace {

using base::ErrorCode;
using base::fail_field;
using base::Result;
using wire::json::Reader;
using Labels = std::map<std::string, std::string>;

constexpr size_t kLabelsMax = 32;
constexpr size_t kLabelKeyBytesMax = 63;
constexpr size_t kLabelValueBytesMax = 256;
// Together with the kernel's limit of one string (128 KiB) and the node's line of 1 MiB.
constexpr size_t kEnvironmentNamesMax = 1024;
constexpr size_t kEnvironmentNameBytesMax = 256;
constexpr size_t kEnvironmentValueBytesMax = 120 * 1024;
constexpr size_t kUserBytesMax = 256;
constexpr size_t kPathBytesMax = 4095;  // PATH_MAX without its NUL
// Beyond it a number is a mistake, not a wish; keeps products of it inside 64 bits.
constexpr double kCpusMax = 1e6;
constexpr int64_t kMegabytesMax = int64_t{1} << 40U;

bool has_nul(std::string_view text) { return text.find('\0') != std::string_view::npos; }

std::unexpected<base::Error> not_supported(std::string_view field, std::string_view what) {
  auto error = base::fail(ErrorCode::not_supported, what, " is not supported yet");
  error.error().details.emplace_back("field", field);
  return error;
}

std::unexpected<base::Error> quota_never(std::string_view field, int64_t most,
                                         std::string_view unit) {
  auto error = base::fail(ErrorCode::quota_never, "'", field,
                          "' exceeds what any sandbox can have: ", most, " ", unit);
  error.error().details.emplace_back("field", field);
  return error;
}

Result<int64_t> read_cpus(Reader& reader, const Capacity& capacity) {
  ASSIGN_OR_RETURN(const double cpus, reader.required<double>("cpus"));
  constexpr double kThousandths = 1000;
  constexpr double kRounding = 1e-6;  // of 0.1 and the like in binary
  const double thousandths = cpus * kThousandths;
  if (!(cpus > 0) || thousandths + kRounding < static_cast<double>(kMillicpusMin)) {
    return fail_field("cpus", "'cpus' must be at least 0.01");
  }
  if (cpus > kCpusMax) {
    return quota_never("cpus", capacity.millicpus, "thousandths of a cpu");
  }
  if (std::abs(thousandths - std::round(thousandths)) > kRounding * std::max(1.0, thousandths)) {
    return fail_field("cpus", "'cpus' must be a multiple of 0.001");
  }
  const auto millicpus = static_cast<int64_t>(std::llround(thousandths));
  if (millicpus > capacity.millicpus) {
    return quota_never("cpus", capacity.millicpus, "thousandths of a cpu");
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

Result<model::Resources> read_resources(Reader& reader, const Team& team,
                                        const Capacity& capacity) {
  model::Resources resources;
  ASSIGN_OR_RETURN(resources.millicpus, read_cpus(reader, capacity));
  ASSIGN_OR_RETURN(const int64_t memory, reader.required<int64_t>("memory_mb"));
  ASSIGN_OR_RETURN(resources.memory_mb,
                   check_megabytes("memory_mb", memory, kMemoryMbMin, capacity.memory_mb));
  ASSIGN_OR_RETURN(const auto storage, reader.optional<int64_t>("storage_mb"));
  ASSIGN_OR_RETURN(resources.storage_mb,
                   check_megabytes("storage_mb", storage.value_or(team.storage_mb), kStorageMbMin,
                                   capacity.storage_mb));
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

Result<model::NetworkMode> read_network(const wire::json::Object& object) {
  Reader reader(object, "network");
  ASSIGN_OR_RETURN(const auto mode, reader.required<std::string>("mode"));
  ASSIGN_OR_RETURN(const auto allow, reader.optional<std::vector<std::string>>("allow"));
  RETURN_IF_ERROR(reader.finish());
  if (mode == "allow" || allow) {
    return not_supported("network.allow", "an egress allow-list");
  }
  const auto parsed = model::parse_network_mode(mode);
  if (!parsed) {
    return fail_field("network.mode", "'network.mode' must be open, none or allow");
  }
  return *parsed;
}

// Fields that are documented and come with later features.
Result<void> refuse_unbuilt(Reader& reader) {
  ASSIGN_OR_RETURN(const auto compose, reader.optional<wire::json::Value>("compose"));
  if (compose) {
    return not_supported("compose", "'compose'");
  }
  ASSIGN_OR_RETURN(const auto entrypoint, reader.optional<bool>("run_entrypoint"));
  if (entrypoint.value_or(false)) {
    return not_supported("run_entrypoint", "'run_entrypoint'");
  }
  ASSIGN_OR_RETURN(const auto isolation, reader.optional<std::string>("isolation"));
  if (isolation == "gvisor" || isolation == "vm") {
    return not_supported("isolation", "this isolation level");
  }
  if (isolation && isolation != "container") {
    return fail_field("isolation", "'isolation' must be container, gvisor or vm");
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

// A name that may be an import's stays as it is: the node looks among its imports first and then
// takes it for a reference. Everything else is normalised.
Result<std::string> read_image(Reader& reader, const Team& team) {
  ASSIGN_OR_RETURN(const auto image, reader.required<std::string>("image"));
  if (image.starts_with("build:")) {
    return not_supported("image", "an image from a build");
  }
  if (model::is_local_image_path(image)) {
    if (!team.local_images) {
      return base::fail(ErrorCode::image_not_allowed,
                        "images on the node's own disk are not allowed here");
    }
    return image;
  }
  if (model::is_local_image_name(image)) {
    return image;
  }
  ASSIGN_OR_RETURN(const auto reference, model::parse_image_reference(image));
  return reference.normalised();
}

}  // namespace

Result<CreateRequest> parse_create(std::string_view body, const Team& team,
                                   const Capacity& capacity) {
  ASSIGN_OR_RETURN(const auto object, wire::json::parse_object(body));
  Reader reader(object);
  CreateRequest request;
  model::ContainerSpec container;
  RETURN_IF_ERROR(refuse_unbuilt(reader));
  ASSIGN_OR_RETURN(container.image, read_image(reader, team));
  ASSIGN_OR_RETURN(request.spec.resources, read_resources(reader, team, capacity));
  ASSIGN_OR_RETURN(auto labels, reader.optional<Labels>("labels"));
  ASSIGN_OR_RETURN(request.labels, check_labels(std::move(labels).value_or(Labels{})));
  RETURN_IF_ERROR(read_process_defaults(reader, container));
  request.spec.containers.push_back(std::move(container));
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
    ASSIGN_OR_RETURN(request.spec.network, read_network(*network));
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
    ASSIGN_OR_RETURN(request.network, read_network(*network));
  }
  RETURN_IF_ERROR(reader.finish());
  return request;
}

}  // namespace service
