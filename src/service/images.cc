#include "service/images.h"

#include <algorithm>

#include "base/sys.h"
#include "model/image_reference.h"
#include "service/create_request.h"
#include "service/token_hash.h"
#include "wire/json.h"

namespace service {
namespace {

// Of a proof that a pull is a team's: nobody guesses 64 bits of a few that run.
constexpr size_t kProofLetters = 16;

// What is signed for whoever began a pull in that team.
std::string proof_text(std::string_view pull, std::string_view team) {
  return base::cat("pull ", pull, " ", team);
}

}  // namespace

using base::ErrorCode;
using base::Result;
using net::Task;

bool Images::may_see(const Caller& caller, const std::string& name) const {
  const TeamPtr team = context_.teams.find(caller.team);
  const auto reference = model::parse_image_reference(name);
  return caller.is_platform_admin ||
         (team && check_image_allowed(*team, reference ? reference->normalised() : name));
}

Task<Result<std::vector<ImageInfo>>> Images::list(Caller caller) {
  CO_ASSIGN_OR_RETURN(auto images, co_await context_.engine.images().list());
  // What lies on the node's own disk is an image only where it may be used; the builder is one.
  std::erase_if(images, [&](const ImageInfo& image) {
    return !may_see(caller, image.name) ||
           (model::is_local_image_path(image.name) && !context_.local_images);
  });
  co_return images;
}

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

Task<Result<ImageInfo>> Images::get(Caller caller, std::string name) {
  CO_ASSIGN_OR_RETURN(auto known, co_await known_name(name));
  if (!may_see(caller, known)) {
    co_return base::fail(ErrorCode::not_found, "image '", name, "' does not exist");
  }
  co_return co_await context_.engine.images().get(std::move(known));
}

Task<Result<std::string>> Images::pull(Caller caller, std::string body) {
  CO_ASSIGN_OR_RETURN(const auto object, wire::json::parse_object(body));
  wire::json::Reader reader(object);
  CO_ASSIGN_OR_RETURN(const auto wanted, reader.required<std::string>("pull"));
  CO_ASSIGN_OR_RETURN(const auto team, reader.optional<std::string>("team"));
  CO_RETURN_IF_ERROR(reader.finish());
  if (team) {
    if (!caller.is_in(*team) || !context_.teams.find(*team)) {
      co_return base::fail(ErrorCode::not_found, "team '", *team, "' does not exist");
    }
    caller.enter(*team);
    if (!caller.is_admin) {
      co_return base::fail(ErrorCode::forbidden, "images of a team are pulled by its admins");
    }
  }
  auto reference = model::parse_image_reference(wanted);
  if (!reference) {
    reference.error().details = {{"field", "pull"}};
    co_return std::unexpected(std::move(reference).error());
  }
  std::string name = reference->normalised();
  CO_ASSIGN_OR_RETURN(const TeamPtr pulling, context_.teams.get(caller.team));
  CO_RETURN_IF_ERROR(check_image_allowed(*pulling, name));
  CO_ASSIGN_OR_RETURN(auto access, registries_.access(caller.team, name));
  CO_ASSIGN_OR_RETURN(const std::string id,
                      co_await context_.engine.images().pull(std::move(name), std::move(access)));
  const std::string signature = context_.secrets.sign(proof_text(id, caller.team));
  co_return base::cat(id, "-", signature.substr(0, kProofLetters));
}

// Hashes are compared, so that the time it takes says nothing of a right one.
bool Images::is_proof(std::string_view shown, std::string_view pull, std::string_view team) const {
  const std::string hash = token_hash(shown);
  return std::ranges::any_of(
      context_.secrets.signatures(proof_text(pull, team)), [&hash](const std::string& signature) {
        return token_hash(std::string_view(signature).substr(0, kProofLetters)) == hash;
      });
}

Task<Result<PullProgress>> Images::progress(Caller caller, std::string pull_id) {
  const size_t dash = std::min(pull_id.rfind('-'), pull_id.size());
  const std::string id = pull_id.substr(0, dash);
  const std::string_view proof =
      std::string_view(pull_id).substr(std::min(dash + 1, pull_id.size()));
  bool is_known = is_proof(proof, id, caller.team);
  for (const Membership& membership : caller.memberships) {
    is_known = is_known || is_proof(proof, id, membership.team);
  }
  if (!is_known && !caller.is_platform_admin) {
    co_return base::fail(ErrorCode::not_found, "pull '", pull_id, "' does not exist");
  }
  co_return co_await context_.engine.images().pull_progress(id);
}

Task<Result<void>> Images::remove(std::string name) {
  CO_ASSIGN_OR_RETURN(auto known, co_await known_name(std::move(name)));
  co_return co_await context_.engine.images().remove(std::move(known));
}

Task<Result<ImageGc>> Images::gc() { return context_.engine.images().gc(); }

Result<void> Images::check_name(const std::string& name) {
  if (name.starts_with(model::kBuildNamePrefix)) {
    return base::fail_field("name", "names that begin with '", model::kBuildNamePrefix,
                            "' are given by image builds");
  }
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
