// All fault points of the node, in the order of a sandbox's life: tests walk this list
// (`sandbox-node --list-fault-points`).
#pragma once

#include <array>

namespace node {

inline constexpr std::array kFaultPoints{
    "node.place.network",  "node.place.cgroups",   "node.place.shell",    "node.place.veth",
    "node.place.storage",  "node.place.files",     "node.place.socket",   "node.create.place",
    "node.create.limits",  "node.create.overlay",  "node.create.folder",  "node.create.record",
    "node.create.start",   "node.create.executed", "node.remove.kill",    "node.remove.dead",
    "node.remove.cgroups", "node.remove.network",  "node.remove.storage", "node.remove.record"};

}  // namespace node
