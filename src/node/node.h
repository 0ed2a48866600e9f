// The node: one object of everything sandbox-node is made of, opened in order and run to its end.
// The owner is main (or a test); one thread, the caller's. open() fails with the step that did.
#pragma once

#include <memory>
#include <string>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "net/event_loop.h"

namespace node {

struct NodeOptions {
  std::string run_folder;  // RUN of api/node-protocol.md
  std::string lib_folder;  // lasting data, 0700
  uint32_t gateway_gid = 0;
  size_t shells = 0;
  std::string agent;
  std::string image_helper;
  std::string dns_helper;   // empty: names on allow-lists are not resolved
  std::string dns_servers;  // "": the host's
  std::string builder_root;
  int64_t storage_pool_mb = 0;
  std::string storage_driver;  // "": the best that works
  std::string name_prefix = "sg";
  std::string subnet = "10.201.0.0/16";
  uint32_t id_base = 2'000'000;
  bool allow_local_images = true;
  int image_free_percent = 10;  // unused images make room below so much free space; 0: never
};

class Node {
 public:
  static base::Result<std::unique_ptr<Node>> open(net::EventLoop& loop, const NodeOptions& options,
                                                  base::Clock& clock, base::Log& log);
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;
  ~Node();

  // Serves until stop_soon(); runs the loop. Sandboxes go on when it ends; where there are none,
  // the firewall and the cgroups go with it.
  void run();
  // From a callback of the loop.
  void stop_soon();

 private:
  struct Parts;
  Node(net::EventLoop& loop, std::unique_ptr<Parts> parts, base::Log& log);

  net::EventLoop& loop_;
  base::Log& log_;
  std::unique_ptr<Parts> parts_;
};

}  // namespace node
