// Work that must come to its own end although the connection it serves may be given up: a command's
// tree has to be gone before its owner is.
#pragma once

#include <functional>
#include <vector>

#include "net/task_group.h"

namespace agent {

// Runs the tasks beside each other until all have ended. They are not cancelled when the caller is:
// `leave` is called instead, once, and has to make them end.
net::Task<void> run_uncancelled(net::EventLoop& loop, std::function<void()> leave,
                                std::vector<net::Task<void>> tasks);

}  // namespace agent
