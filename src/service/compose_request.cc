#include "service/compose_request.h"

#include <algorithm>

#include "compose/env_file.h"
#include "wire/json.h"

namespace service {
namespace {

using base::fail_field;
using base::Result;
using wire::json::Array;
using wire::json::Object;
using wire::json::Reader;
using Texts = std::map<std::string, std::string>;

// Of all files and texts of env files together: with the rest of the body within what it may have.
constexpr size_t kTextsBytesMax = size_t{512} * 1024;

Result<void> check_size(const compose::Input& input) {
  size_t bytes = 0;
  for (const std::string& file : input.files) {
    bytes += file.size();
  }
  for (const auto* texts : {&input.variables, &input.env_files}) {
    for (const auto& [name, text] : *texts) {
      bytes += name.size() + text.size();
    }
  }
  if (bytes > kTextsBytesMax) {
    return fail_field("compose", "the compose files and their variables exceed ", kTextsBytesMax,
                      " bytes");
  }
  return {};
}

// The fields that a create and a check have in common.
Result<compose::Input> read_input(Reader& reader) {
  compose::Input input;
  ASSIGN_OR_RETURN(input.files, reader.required<std::vector<std::string>>("files"));
  ASSIGN_OR_RETURN(auto variables, reader.optional<Texts>("env"));
  ASSIGN_OR_RETURN(auto env_files, reader.optional<Texts>("env_files"));
  ASSIGN_OR_RETURN(const auto main, reader.optional<std::string>("main"));
  input.variables = std::move(variables).value_or(Texts{});
  input.env_files = std::move(env_files).value_or(Texts{});
  input.main = main.value_or("");
  ASSIGN_OR_RETURN(const auto dotenv, reader.optional<std::string>("dotenv"));
  RETURN_IF_ERROR(check_size(input));
  if (dotenv) {
    ASSIGN_OR_RETURN(auto below, compose::parse_env_file(*dotenv, input.variables, "dotenv"));
    input.variables.merge(std::move(below));  // what is there stays
  }
  return input;
}

Object build_json(const compose::BuildNeed& build) {
  Object arguments;
  for (const auto& [name, value] : build.arguments) {
    arguments[name] = value;
  }
  Object out{{"service", build.service},
             {"context", build.context},
             {"dockerfile", build.dockerfile},
             {"target", build.target},
             {"args", std::move(arguments)}};
  if (!build.dockerfile_inline.empty()) {
    out["dockerfile_inline"] = build.dockerfile_inline;
  }
  if (!build.secrets.empty()) {
    Array secrets;
    for (const compose::BuildSecretNeed& secret : build.secrets) {
      secrets.push_back(secret.file.empty()
                            ? Object{{"id", secret.id}, {"environment", secret.variable}}
                            : Object{{"id", secret.id}, {"file", secret.file}});
    }
    out["secrets"] = std::move(secrets);
  }
  return out;
}

}  // namespace

Result<Texts> compose_builds(const Object& body) {
  Reader reader(body);
  ASSIGN_OR_RETURN(const auto compose, reader.optional<Object>("compose"));
  if (!compose) {
    return Texts{};
  }
  Reader inner(*compose, "compose");
  ASSIGN_OR_RETURN(auto builds, inner.optional<Texts>("builds"));
  if (builds && builds->size() > compose::kServicesMax) {
    return fail_field("compose.builds", "more than ", compose::kServicesMax, " builds");
  }
  return std::move(builds).value_or(Texts{});
}

Result<std::optional<std::vector<model::ContainerSpec>>> read_compose(Reader& reader,
                                                                      const CreateLimits& limits) {
  ASSIGN_OR_RETURN(const auto object, reader.optional<Object>("compose"));
  if (!object) {
    return std::nullopt;
  }
  Reader inner(*object, "compose");
  ASSIGN_OR_RETURN(compose::Input input, read_input(inner));
  RETURN_IF_ERROR(inner.optional<Texts>("builds"));
  RETURN_IF_ERROR(inner.finish());
  if (limits.built_images != nullptr) {
    input.images = *limits.built_images;
  }
  ASSIGN_OR_RETURN(auto containers, compose::compile(input));
  for (model::ContainerSpec& container : containers) {
    auto image = check_image(container.image, limits);
    if (!image) {
      return std::unexpected(
          std::move(image.error())
              .with("service", base::cat("services.", container.name, ".image")));
    }
    container.image = std::move(*image);
  }
  return containers;
}

model::Resources sum_of(const std::vector<model::ContainerSpec>& containers) {
  model::Resources sum;
  bool all_cpus = true;
  bool all_memory = true;
  for (const model::ContainerSpec& container : containers) {
    sum.millicpus += container.millicpus;
    sum.memory_mb += container.memory_mb;
    all_cpus = all_cpus && container.millicpus > 0;
    all_memory = all_memory && container.memory_mb > 0;
  }
  sum.millicpus = all_cpus ? sum.millicpus : 0;
  sum.memory_mb = all_memory ? sum.memory_mb : 0;
  return sum;
}

Result<void> put_over_main(model::ContainerSpec& main, model::ContainerSpec over, Reader& reader) {
  ASSIGN_OR_RETURN(const auto image, reader.optional<std::string>("image"));
  if (image) {
    return fail_field("image", "'image' and 'compose' exclude each other");
  }
  if (over.run_entrypoint) {
    return fail_field("run_entrypoint", "services of 'compose' run as their file says");
  }
  for (auto& [name, value] : over.environment) {
    main.environment[name] = std::move(value);
  }
  if (over.user) {
    main.user = std::move(over.user);
  }
  if (over.workdir) {
    main.workdir = std::move(over.workdir);
  }
  return {};
}

Result<Object> check_compose(std::string_view body) {
  ASSIGN_OR_RETURN(const auto object, wire::json::parse_object(body));
  Reader reader(object);
  ASSIGN_OR_RETURN(const compose::Input input, read_input(reader));
  RETURN_IF_ERROR(reader.finish());
  ASSIGN_OR_RETURN(const compose::Needs needs, compose::needs_of(input));
  Array services;
  for (const std::string& name : needs.services) {
    services.emplace_back(name);
  }
  Array builds;
  for (const compose::BuildNeed& build : needs.builds) {
    builds.emplace_back(build_json(build));
  }
  Array env_files;
  for (const compose::EnvFileNeed& file : needs.env_files) {
    env_files.push_back(Object{{"path", file.path}, {"required", file.required}});
  }
  return Object{{"services", std::move(services)},
                {"builds", std::move(builds)},
                {"env_files", std::move(env_files)}};
}

}  // namespace service
