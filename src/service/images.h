// The use cases of the image routes: the engine's images, and where an import's body is spooled.
// Owned by main; loop thread only.
#pragma once

#include <string>
#include <vector>

#include "service/caller.h"
#include "service/registries.h"

namespace service {

using ImageInfo = engine::ImageInfo;
using PullProgress = engine::PullProgress;
using ImageGc = engine::GcResult;

class Images {
 public:
  // `spool_folder` exists and is the gateway's own.
  Images(Context& context, Registries& registries, std::string spool_folder)
      : context_(context), registries_(registries), spool_folder_(std::move(spool_folder)) {}

  // Those that the caller's team may use.
  net::Task<base::Result<std::vector<ImageInfo>>> list(Caller caller);
  net::Task<base::Result<ImageInfo>> get(Caller caller, std::string name);
  net::Task<base::Result<ImageInfo>> get(std::string name);
  // `body`: {"pull": "reference", "team"?}, with that team's credentials; the id for progress():
  // the engine's and a proof that it was given to this team, which any gateway can tell.
  net::Task<base::Result<std::string>> pull(Caller caller, std::string body);
  // not_found for a pull of a team that the caller is not in.
  net::Task<base::Result<PullProgress>> progress(Caller caller, std::string pull_id);
  net::Task<base::Result<void>> remove(std::string name);
  net::Task<base::Result<ImageGc>> gc();

  // invalid_field when it can't name an import.
  [[nodiscard]] static base::Result<void> check_name(const std::string& name);
  // An unnamed file for an import's body; it is gone when its descriptor is.
  [[nodiscard]] base::Result<base::Fd> open_spool() const;
  net::Task<base::Result<ImageInfo>> import(std::string name, base::Fd tar);

  [[nodiscard]] Registries& registries() { return registries_; }
  [[nodiscard]] net::BlockingPool& pool() { return context_.pool; }

 private:
  [[nodiscard]] bool may_see(const Caller& caller, const std::string& name) const;
  net::Task<base::Result<std::string>> known_name(std::string name);
  [[nodiscard]] bool is_proof(std::string_view shown, std::string_view pull,
                              std::string_view team) const;

  Context& context_;
  Registries& registries_;
  std::string spool_folder_;
};

}  // namespace service
