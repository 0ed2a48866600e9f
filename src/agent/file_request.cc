#include "agent/file_request.h"

#include <errno.h>

#include <algorithm>

namespace agent {
namespace {

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
      return ErrorCode::disk_full;
    case EEXIST:
      return ErrorCode::file_exists;
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

std::unexpected<base::Error> path_error(ErrorCode code, std::string_view message) {
  auto error = base::fail(code, message);
  error.error().details.emplace_back("field", "path");
  return error;
}

Result<void> set_path(FileRequest& out, const Agent& agent, std::string value) {
  if (value.empty()) {
    return path_error(ErrorCode::path_invalid, "'path' is empty");
  }
  if (value.find('\0') != std::string::npos) {
    return path_error(ErrorCode::path_invalid, "'path' holds NUL");
  }
  out.path =
      value.starts_with('/') ? std::move(value) : base::cat(agent.config.workdir, "/", value);
  return {};
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

Result<FileRequest> parse_file_request(Agent& agent, const wire::http::Request& request) {
  ASSIGN_OR_RETURN(auto parameters, request.parameters());
  FileRequest out;
  std::string user = agent.config.user;
  std::vector<std::string> seen;
  for (auto& [name, value] : parameters) {
    if (std::ranges::find(seen, name) != seen.end()) {
      return base::fail(ErrorCode::malformed, "the parameter '", name, "' is given twice");
    }
    seen.push_back(name);
    const bool put = request.method == "PUT";
    if (name == "path") {
      RETURN_IF_ERROR(set_path(out, agent, std::move(value)));
    } else if (name == "user") {
      user = std::move(value);
    } else if (name == "mode" && put) {
      RETURN_IF_ERROR(set_mode(out, value));
    } else if (name == "owner" && put) {
      ASSIGN_OR_RETURN(out.owner, agent.accounts.find(value));
    } else if (name == "list" && !put) {
      out.list = value == "1" || value == "true";
    } else if (name == "depth" && !put) {
      RETURN_IF_ERROR(set_depth(out, value));
    } else if (name == "tar") {
      return base::fail(ErrorCode::not_supported, "'tar' is not supported yet");
    } else {
      auto error = base::fail(ErrorCode::unknown_field, "unknown parameter '", name, "'");
      error.error().details.emplace_back("field", name);
      return error;
    }
  }
  if (out.path.empty()) {
    return path_error(ErrorCode::missing_field, "the parameter 'path' is required");
  }
  ASSIGN_OR_RETURN(out.acting, agent.accounts.find(user));
  return out;
}

}  // namespace agent
