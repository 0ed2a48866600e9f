// The files of /etc that describe the machine: resolv.conf, hosts and hostname, written as
// ordinary files into a sandbox's upper layer (a mount on them could not be replaced inside).
// Stateless; the node's thread. Nothing here follows a link of an image outside its root.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/error.h"

namespace node {

// Into a fresh storage area, before the image is known.
base::Result<void> prepare_root_files(int area, uint32_t owner);

struct RootFiles {
  uint32_t owner = 0;  // host id of the sandbox's root
  std::string hostname;
  std::string address;
  std::map<std::string, std::string> hosts;  // more names with their addresses
};
enum class EtcState { in_upper, unusual };
// Once the image is known (`lower`: its layers, id-mapped, top first): gives the root folder and
// /etc the image's modes and owners. Unusual: the image's /etc is no folder; what was prepared is
// gone then, and write_root_files() is to be called once the overlay exists.
base::Result<EtcState> finish_root_files(int area, const int* lower, size_t lower_count,
                                         const RootFiles& files);
// Through the finished root, as if it were "/". An image in which that is impossible does without.
void write_root_files(int root, const RootFiles& files);

// For an allow-list: where the prepared resolv.conf has no name server, since the host has none
// that a sandbox could reach, it gets one that stands for the node's own.
base::Result<void> ensure_name_server(int area);

}  // namespace node
