#include "service/images.h"

#include <algorithm>

#include "base/sys.h"
#include "model/image_reference.h"
#include "wire/json.h"

namespace service {

using base::ErrorCode;
using base::Result;
using net::Task;

Task<Result<std::vector<ImageInfo>>> Images::list() { return context_.engine.images().list(); }

// An image is asked for by its name or by any spelling of its reference.
Task<Result<std::string>> Images::known_name(std::string name) {
  const auto found = co_await context_.engine.images().get(name);
  if (found) {
    co_return name;
  }
  if (found.error().code != ErrorCode::not_found) {
    co_return std::unexpected(found.error());
  }
  const auto reference = model::parse_image_reference(name);
  if (!reference) {
    co_return base::fail(ErrorCode::not_found, "image '", name, "' does not exist");
  }
  co_return reference->normalised();
}

Task<Result<ImageInfo>> Images::get(std::string name) {
  CO_ASSIGN_OR_RETURN(auto known, co_await known_name(std::move(name)));
  co_return co_await context_.engine.images().get(std::move(known));
}

Task<Result<std::string>> Images::pull(std::string body) {
  CO_ASSIGN_OR_RETURN(const auto object, wire::json::parse_object(body));
  wire::json::Reader reader(object);
  CO_ASSIGN_OR_RETURN(const auto wanted, reader.required<std::string>("pull"));
  CO_ASSIGN_OR_RETURN(const auto team, reader.optional<std::string>("team"));
  CO_RETURN_IF_ERROR(reader.finish());
  if (team && *team != context_.team.name) {
    co_return base::fail(ErrorCode::not_found, "team '", *team, "' does not exist");
  }
  auto reference = model::parse_image_reference(wanted);
  if (!reference) {
    reference.error().details = {{"field", "pull"}};
    co_return std::unexpected(std::move(reference).error());
  }
  std::string name = reference->normalised();
  CO_ASSIGN_OR_RETURN(auto access, registries_.access(name));
  co_return co_await context_.engine.images().pull(std::move(name), std::move(access));
}

Task<Result<PullProgress>> Images::progress(std::string pull_id) {
  return context_.engine.images().pull_progress(std::move(pull_id));
}

Task<Result<void>> Images::remove(std::string name) {
  CO_ASSIGN_OR_RETURN(auto known, co_await known_name(std::move(name)));
  co_return co_await context_.engine.images().remove(std::move(known));
}

Task<Result<ImageGc>> Images::gc() { return context_.engine.images().gc(); }

Result<void> Images::check_name(const std::string& name) {
  if (!model::is_local_image_name(name)) {
    return base::fail_field("name",
                            "'name' must be lower-case path components and an optional tag");
  }
  return {};
}

Result<base::Fd> Images::open_spool() const {
  constexpr mode_t kOwnerOnly = 0600;
  return base::sys::open(spool_folder_, O_TMPFILE | O_RDWR, kOwnerOnly);
}

Task<Result<ImageInfo>> Images::import(std::string name, base::Fd tar) {
  return context_.engine.images().import(std::move(name), std::move(tar));
}

}  // namespace service
