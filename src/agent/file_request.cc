#include "agent/file_request.h"

#include <errno.h>

#include <algorithm>
#include <array>

namespace agent {
namespace {

using base::Error;

constexpr int kListDepthMax = 64;
constexpr size_t kModeDigitsMax = 4;

ErrorCode code_of(int errno_value) {
  switch (errno_value) {
    case ENOENT:
      return ErrorCode::file_not_found;
    case ENOTDIR:
      return ErrorCode::not_a_directory;
    case EISDIR:
      return ErrorCode::is_a_directory;
    case EACCES:
    case EPERM:
      return ErrorCode::permission_denied;
    case EROFS:
      return ErrorCode::read_only;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return ErrorCode::disk_full;
    case EEXIST:
      return ErrorCode::file_exists;
    case ENOTEMPTY:
      return ErrorCode::conflict;
    case EBUSY:
    case ETXTBSY:
      return ErrorCode::in_use;
    case EMFILE:
    case ENFILE:
    case ENOMEM:
      return ErrorCode::overloaded;
    case ENXIO:
    case ENODEV:
      return ErrorCode::not_a_file;
    case ELOOP:
    case ENAMETOOLONG:
    case EINVAL:
    case EXDEV:
      return ErrorCode::path_invalid;
    default:
      return ErrorCode::agent_failed;
  }
}

std::unexpected<base::Error> field_error(ErrorCode code, std::string_view field,
                                         std::string_view message) {
  return std::unexpected(Error{
      .code = code, .message = std::string(message), .details = {{"field", std::string(field)}}});
}

Result<std::string> absolute_path(const Agent& agent, std::string_view field,
                                  const std::string& value) {
  if (value.empty()) {
    return field_error(ErrorCode::path_invalid, field, base::cat("'", field, "' is empty"));
  }
  if (value.find('\0') != std::string::npos) {
    return field_error(ErrorCode::path_invalid, field, base::cat("'", field, "' holds NUL"));
  }
  return from_workdir(agent.config, value);
}

Result<void> set_depth(FileRequest& out, std::string_view value) {
  const auto depth = base::parse_number<int>(value);
  if (!depth || *depth < 1 || *depth > kListDepthMax) {
    return base::fail_field("depth", "'depth' must be from 1 to ", kListDepthMax);
  }
  out.depth = *depth;
  return {};
}

Result<void> set_mode(FileRequest& out, std::string_view value) {
  out.mode = parse_mode(value);
  return out.mode ? Result<void>{} : base::fail_field("mode", "'mode' must be octal: 0644");
}

struct Flag {
  std::string_view name;
  bool FileRequest::* member;
};
constexpr std::array kFlags{Flag{"list", &FileRequest::list},
                            Flag{"stat", &FileRequest::stat},
                            Flag{"tar", &FileRequest::tar},
                            Flag{"recursive", &FileRequest::recursive},
                            Flag{"overwrite", &FileRequest::overwrite},
                            Flag{"preserve_owner", &FileRequest::preserve_owner},
                            Flag{"one_file_system", &FileRequest::one_file_system}};

Result<void> set_flag(FileRequest& out, std::string_view name, std::string_view value) {
  const bool on = value.empty() || value == "1" || value == "true";
  if (!on && value != "0" && value != "false") {
    return base::fail_field(name, "'", name, "' must be true or false");
  }
  out.*std::ranges::find(kFlags, name, &Flag::name)->member = on;
  return {};
}

// What a route takes besides `path` and `user`.
bool takes(FileRoute route, std::string_view name) {
  const auto any_of = [name](std::initializer_list<std::string_view> names) {
    return std::ranges::find(names, name) != names.end();
  };
  switch (route) {
    case FileRoute::read:
      return any_of({"list", "depth", "stat", "tar", "one_file_system"});
    case FileRoute::write:
      return any_of({"mode", "owner", "tar", "preserve_owner"});
    case FileRoute::remove:
    case FileRoute::watch:
      return any_of({"recursive"});
    case FileRoute::make_folder:
      return any_of({"mode", "owner"});
    case FileRoute::move:
      return any_of({"to", "overwrite"});
    case FileRoute::change_mode:
      return any_of({"mode", "owner", "recursive"});
  }
  return false;
}

Result<void> set_parameter(FileRequest& out, Agent& agent, const std::string& name,
                           std::string value) {
  if (name == "path") {
    ASSIGN_OR_RETURN(out.path, absolute_path(agent, name, value));
    return {};
  }
  if (name == "to") {
    ASSIGN_OR_RETURN(out.to, absolute_path(agent, name, value));
    return {};
  }
  if (name == "user") {
    ASSIGN_OR_RETURN(out.acting, agent.accounts.find(value));
    return {};
  }
  if (name == "owner") {
    ASSIGN_OR_RETURN(out.owner, agent.accounts.find(value));
    return {};
  }
  if (name == "mode") {
    return set_mode(out, value);
  }
  return name == "depth" ? set_depth(out, value) : set_flag(out, name, value);
}

// What only makes sense together, or not together.
Result<void> check_whole(const FileRequest& request, FileRoute route) {
  if (request.path.empty()) {
    return field_error(ErrorCode::missing_field, "path", "the parameter 'path' is required");
  }
  if (route == FileRoute::move && request.to.empty()) {
    return field_error(ErrorCode::missing_field, "to", "the parameter 'to' is required");
  }
  if (route == FileRoute::change_mode && !request.mode && !request.owner) {
    return field_error(ErrorCode::missing_field, "mode", "one of 'mode' and 'owner' is required");
  }
  if (int{request.list} + int{request.stat} + int{request.tar} > 1) {
    return base::fail_field("tar", "only one of 'list', 'stat' and 'tar' can be asked for");
  }
  if (request.tar && (request.mode || request.owner)) {
    return base::fail_field("tar", "'mode' and 'owner' are those of the archive's members");
  }
  if (request.preserve_owner && !request.tar) {
    return base::fail_field("preserve_owner", "'preserve_owner' is for 'tar=1' only");
  }
  if (request.one_file_system && !request.tar) {
    return base::fail_field("one_file_system", "'one_file_system' is for 'tar=1' only");
  }
  return {};
}

}  // namespace

std::optional<mode_t> parse_mode(std::string_view text) {
  return text.size() > kModeDigitsMax ? std::nullopt : base::parse_number<mode_t>(text, 8);
}

base::Error file_error(int errno_value, std::string_view path) {
  base::Error error = base::errno_error(errno_value, std::string(path));
  error.code = code_of(errno_value);
  error.details.emplace_back("path", path);
  return error;
}

Result<FileRequest> parse_file_request(Agent& agent, const wire::http::Request& request,
                                       FileRoute route) {
  ASSIGN_OR_RETURN(auto parameters, request.parameters());
  FileRequest out;
  std::vector<std::string> seen;
  for (auto& [name, value] : parameters) {
    if (std::ranges::find(seen, name) != seen.end()) {
      return base::fail(ErrorCode::malformed, "the parameter '", name, "' is given twice");
    }
    if (name != "path" && name != "user" && !takes(route, name)) {
      return field_error(ErrorCode::unknown_field, name,
                         base::cat("unknown parameter '", name, "'"));
    }
    RETURN_IF_ERROR(set_parameter(out, agent, name, std::move(value)));
    seen.push_back(name);
  }
  RETURN_IF_ERROR(check_whole(out, route));
  if (std::ranges::find(seen, "user") == seen.end()) {
    ASSIGN_OR_RETURN(out.acting, agent.accounts.find(agent.config.user));
  }
  return out;
}

}  // namespace agent
