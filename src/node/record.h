// What the node keeps of a sandbox on disk (RUN/sandboxes/ID/record.json) to find it again after
// its own end: no secrets, no environment. Written whole before the sandbox's process is let go.
// Values and their text form; the file is replaced atomically.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/fd.h"
#include "model/network_policy.h"

namespace node {

struct Record {
  std::string id;
  uint32_t index = 0;       // of its place
  pid_t pid = 0;            // of PID 1, as the host sees it
  uint64_t start_time = 0;  // of that process, in ticks since boot: tells a reused pid
  std::string boot_id;
  std::string image;
  std::string image_digest;
  std::vector<std::string> layers;
  model::NetworkPolicy network;
  uint32_t network_mark = 0;  // of `allow`: what its connections carry
  int64_t pull_ms = 0;
  int64_t start_ms = 0;
};

std::string to_text(const Record& record);
base::Result<Record> parse_record(std::string_view text);
base::Result<void> write_record(const std::string& folder, const Record& record);
base::Result<Record> read_record(const std::string& folder);

// Field 22 of /proc/PID/stat.
base::Result<uint64_t> read_start_time(pid_t pid);
std::string read_boot_id();

// The process of a record, if it still runs: a pidfd of the very process, whose agent was executed.
struct Survivor {
  base::Fd process;
  bool executed = false;  // false: still a shell, which is to be killed
};
base::Result<Survivor> find_survivor(const Record& record);

}  // namespace node
