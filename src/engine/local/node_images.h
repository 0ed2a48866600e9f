// The images of one machine: those of the node, asked over its protocol. Owned by LocalEngine.
#pragma once

#include <string>
#include <vector>

#include "engine/local/node_client.h"

namespace engine {

class NodeImages final : public Images {
 public:
  explicit NodeImages(NodeClient& node) : node_(node) {}

  net::Task<Result<std::vector<ImageInfo>>> list() override;
  net::Task<Result<ImageInfo>> get(std::string name) override;
  net::Task<Result<std::string>> pull(std::string reference, model::RegistryAccess access) override;
  net::Task<Result<PullProgress>> pull_progress(std::string pull_id) override;
  net::Task<Result<ImageInfo>> import(std::string name, base::Fd tar) override;
  net::Task<Result<void>> remove(std::string name) override;
  net::Task<Result<GcResult>> gc() override;

 private:
  NodeClient& node_;
};

}  // namespace engine
