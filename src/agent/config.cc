#include "agent/config.h"

#include "wire/json.h"

namespace agent {

Result<Config> parse_config(std::string_view text) {
  ASSIGN_OR_RETURN(const auto object, wire::json::parse_object(text));
  wire::json::Reader reader(object);
  ASSIGN_OR_RETURN(auto environment, reader.optional<Environment>("env"));
  ASSIGN_OR_RETURN(auto user, reader.optional<std::string>("user"));
  ASSIGN_OR_RETURN(auto workdir, reader.optional<std::string>("workdir"));
  ASSIGN_OR_RETURN(const auto locked, reader.optional<bool>("no_new_privileges"));
  ASSIGN_OR_RETURN(auto entrypoint, reader.optional<std::vector<std::string>>("entrypoint"));
  Config config{.environment = std::move(environment).value_or(Environment{}),
                .user = std::move(user).value_or(""),
                .workdir = std::move(workdir).value_or("/"),
                .no_new_privileges = locked.value_or(false),
                .entrypoint = std::move(entrypoint).value_or(std::vector<std::string>{})};
  if (config.workdir.empty()) {
    config.workdir = "/";
  }
  if (!config.workdir.starts_with('/')) {
    return base::fail_field("workdir", "the workdir must be absolute");
  }
  return config;
}

}  // namespace agent
