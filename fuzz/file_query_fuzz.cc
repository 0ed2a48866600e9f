// The query of the file routes (list, watch and all others). What is accepted is whole, within its
// bounds, and has nothing that its route does not take.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "agent/file_request.h"

namespace {

using agent::FileRoute;

constexpr int kDepthMax = 64;
constexpr mode_t kModeMax = 07777;

bool is_path(const std::string& path) { return path.starts_with('/') && !path.contains('\0'); }

bool is_sound(const agent::FileRequest& request, FileRoute route) {
  const int forms = int{request.list} + int{request.stat} + int{request.tar};
  const bool reads = route == FileRoute::read;
  const bool writes = route == FileRoute::write;
  return is_path(request.path) && (route == FileRoute::move) == is_path(request.to) &&
         request.depth >= 1 && request.depth <= kDepthMax && forms <= 1 &&
         (reads || (!request.list && !request.stat && request.depth == 1)) &&
         (reads || writes || !request.tar) && (!request.preserve_owner || request.tar) &&
         (!request.mode || *request.mode <= kModeMax) &&
         (route != FileRoute::watch || (!request.mode && !request.owner && !request.overwrite));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static net::EventLoop loop;
  static agent::Agent agent(loop, {});
  wire::http::Request request;
  request.query.assign(reinterpret_cast<const char*>(data), size);
  for (const FileRoute route :
       {FileRoute::read, FileRoute::write, FileRoute::remove, FileRoute::make_folder,
        FileRoute::move, FileRoute::change_mode, FileRoute::watch}) {
    const auto parsed = agent::parse_file_request(agent, request, route);
    if (parsed && !is_sound(*parsed, route)) {
      std::abort();
    }
  }
  return 0;
}
