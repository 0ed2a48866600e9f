// How a container of several runs its own command, and what it shares with the others. Values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace model {

// Something mounted into a container.
struct Mount {
  std::string volume;  // its name within the sandbox; empty: a tmpfs of its own
  std::string target;  // absolute, without "." and ".."
  bool read_only = false;
  bool copy = true;     // a fresh volume begins with what the image has at `target`
  int64_t size_mb = 0;  // of a tmpfs; 0: as much as the container's memory
};

struct Healthcheck {
  std::vector<std::string> argv;
  int64_t interval_ms = 30'000;
  int64_t timeout_ms = 30'000;
  int64_t retries = 3;
  int64_t start_period_ms = 0;
  int64_t start_interval_ms = 5'000;
};

enum class Condition : uint8_t { started, healthy, completed };

struct Dependency {
  std::string container;
  Condition condition = Condition::started;
  bool required = true;
};

enum class Restart : uint8_t { no, on_failure, always };

// A text that the container finds as a file when its command starts.
struct ServiceFile {
  std::string path;  // absolute, without "." and ".."
  std::string content;
  uint32_t mode = 0444;
  std::string owner;  // "uid:gid"; empty: root
};

// A container's own command. It runs when who started the sandbox says so, not by itself.
struct Service {
  // Over the image's; an entrypoint of its own also drops the image's command.
  std::optional<std::vector<std::string>> entrypoint;
  std::optional<std::vector<std::string>> command;
  bool terminal = false;
  bool input = false;  // its standard input stays open
  Restart restart = Restart::no;
  int64_t restarts_max = 0;  // of on_failure; 0: no end
  std::optional<Healthcheck> healthcheck;
  bool no_healthcheck = false;  // the image's counts as little as none
  std::vector<Dependency> depends_on;
  std::vector<ServiceFile> files;  // put there by who starts it; never the engine's concern
};

}  // namespace model
