// The CLI's grammar: words to options, help texts, and the facts the completion scripts are made
// from. Pure; every mistake is an invalid_field error with one line that says what to write.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/error.h"
#include "cli/format.h"

namespace cli {

using base::Result;

inline constexpr double kDefaultCpus = 1;
inline constexpr int64_t kDefaultMemoryMb = 512;

struct GlobalOptions {
  std::string url;
  std::string token_file;
  OutputFormat output = OutputFormat::automatic;
};

struct LoginOptions {
  std::string url;
};
struct CreateOptions {
  std::string image;
  double cpus = kDefaultCpus;
  int64_t memory_mb = kDefaultMemoryMb;
  std::optional<int64_t> storage_mb;
  std::vector<std::string> labels;
  std::vector<std::string> env;
  std::vector<std::string> env_files;
  std::string user, workdir, network, pull, team;
  std::optional<int64_t> lease_sec, max_lifetime_sec;
  bool wait = true;
};
// What exec and run share of a command.
struct CommandOptions {
  std::vector<std::string> argv;
  std::vector<std::string> env;
  std::vector<std::string> env_files;
  std::string user, cwd;
  std::optional<int64_t> timeout_sec;
  bool read_input = true;
};
struct ExecOptions {
  std::string id;
  CommandOptions command;
};
struct RunOptions {
  CreateOptions create;
  CommandOptions command;
};
struct ListOptions {
  std::string state, image, owner, team;
  std::vector<std::string> labels;
  int64_t limit = 0;  // 0: all
  bool all = false;
  bool quiet = false;
};
struct GetOptions {
  std::string id;
  int64_t wait_sec = 0;
};
struct CopyOptions {
  std::string source, destination, mode, user;
};
struct EventsOptions {
  std::string id;
  bool follow = false;
};
struct RemoveOptions {
  std::vector<std::string> ids;
  bool wait = true;
};
struct ImagePullOptions {
  std::string reference;
};
struct ImageListOptions {
  bool quiet = false;
};
struct ImageRemoveOptions {
  std::vector<std::string> names;
};
struct ImageImportOptions {
  std::string file, name;
};
struct ImageGcOptions {};
struct VersionOptions {};
struct CompletionOptions {
  std::string shell;
};
// --help and --version: text for standard output.
struct ShowText {
  std::string text;
};

using Invocation =
    std::variant<ShowText, LoginOptions, CreateOptions, ListOptions, GetOptions, RunOptions,
                 ExecOptions, CopyOptions, EventsOptions, RemoveOptions, ImagePullOptions,
                 ImageListOptions, ImageRemoveOptions, ImageImportOptions, ImageGcOptions,
                 VersionOptions, CompletionOptions>;

struct ParsedCommandLine {
  GlobalOptions global;
  Invocation invocation;
};

// `words` without the program's name.
Result<ParsedCommandLine> parse_command_line(const std::vector<std::string>& words);

// "512", "512m", "2g" (mebibytes without a unit) in MB.
Result<int64_t> parse_megabytes(std::string_view text);
// "90", "90s", "30m", "2h", "1d" in seconds.
Result<int64_t> parse_seconds(std::string_view text);

// For completion scripts.
struct OptionInfo {
  std::vector<std::string> names;  // "--output", "-o"
  std::string description;
  bool takes_value = false;
  std::vector<std::string> choices;  // of the value, when closed
};
struct CommandInfo {
  std::string name;  // "create", "image pull"
  std::string description;
  std::vector<OptionInfo> options;
  bool takes_id = false;  // a sandbox's id comes first
};
std::vector<CommandInfo> describe_commands();

}  // namespace cli
