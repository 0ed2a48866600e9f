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

// The first process of a container, as the host sees it.
struct RecordedProcess {
  pid_t pid = 0;
  uint64_t start_time = 0;  // in ticks since boot: tells a reused pid
};

// A container beside main.
struct RecordedContainer {
  std::string name;
  RecordedProcess process;
  std::string image_digest;
  std::vector<std::string> layers;
};

struct Record {
  std::string id;
  uint32_t index = 0;  // of its place
  RecordedProcess process;
  std::string boot_id;
  std::string image;
  std::string image_digest;
  std::vector<std::string> layers;
  model::NetworkPolicy network;
  uint32_t network_mark = 0;  // of `allow`: what its connections carry
  int64_t pull_ms = 0;
  int64_t start_ms = 0;
  bool grouped = false;  // its containers' cgroups lie below its own
  std::vector<RecordedContainer> others;
};

std::string to_text(const Record& record);
base::Result<Record> parse_record(std::string_view text);
base::Result<void> write_record(const std::string& folder, const Record& record);
base::Result<Record> read_record(const std::string& folder);

// Field 22 of /proc/PID/stat.
base::Result<uint64_t> read_start_time(pid_t pid);
std::string read_boot_id();

// A recorded process, if it still runs: a pidfd of the very process, whose agent was executed.
struct Survivor {
  base::Fd process;
  bool executed = false;  // false: still a shell, which is to be killed
};
base::Result<Survivor> find_survivor(const std::string& boot_id, const RecordedProcess& process);

}  // namespace node
