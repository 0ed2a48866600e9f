// The digest of what a build is made from: names, modes, links and bytes of its context, whatever
// their order and times, with the options and the team. Fed piece by piece; holds one line for each
// member. A member that would lie outside the context, or that is no file, folder or link, is
// archive_invalid and named.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"
#include "wire/tar_reader.h"

struct evp_md_ctx_st;

namespace service {

struct BuildOptions {
  std::string dockerfile = "Dockerfile";  // within the context
  std::string target;                     // a stage; "": the last
  std::string platform = "linux/amd64";
  std::map<std::string, std::string> arguments;
};

class BuildContext {
 public:
  static constexpr size_t kMembersMax = 200'000;
  static constexpr uint64_t kBytesMax = uint64_t{4} << 30;

  BuildContext();
  base::Result<void> take(std::string_view bytes);
  // After the last byte: 64 hexadecimal digits. dockerfile_invalid where the Dockerfile is missing.
  base::Result<std::string> finish(std::string_view team, const BuildOptions& options);

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const;
  };
  base::Result<void> begin_member();
  void hash_piece(uint64_t offset, std::string_view data);

  wire::tar::Reader reader_;
  std::map<std::string, std::string> members_;  // by path: kind, mode, size, target, bytes' digest
  std::unique_ptr<evp_md_ctx_st, Free> hash_;
  std::string path_;  // of the present member
  uint64_t bytes_ = 0;
};

}  // namespace service
