// The use cases of the image routes: the engine's images, and where an import's body is spooled.
// Owned by main; loop thread only.
#pragma once

#include <string>
#include <vector>

#include "service/access.h"
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

  net::Task<base::Result<std::vector<ImageInfo>>> list();
  net::Task<base::Result<ImageInfo>> get(std::string name);
  // `body`: {"pull": "reference", "team"?}; the id for progress().
  net::Task<base::Result<std::string>> pull(std::string body);
  net::Task<base::Result<PullProgress>> progress(std::string pull_id);
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
  net::Task<base::Result<std::string>> known_name(std::string name);

  Context& context_;
  Registries& registries_;
  std::string spool_folder_;
};

}  // namespace service
