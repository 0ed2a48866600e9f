// What every command gets, and the commands themselves. Each takes its options and answers with
// the program's exit code, or with the error that is shown in one line and makes it 125.
#pragma once

#include "base/clock.h"
#include "base/random.h"
#include "cli/api.h"
#include "cli/command_line.h"
#include "cli/config.h"
#include "cli/console.h"
#include "cli/interrupt.h"

namespace cli {

inline constexpr int kExitTimedOut = 124;
inline constexpr int kExitOwnError = 125;
inline constexpr int kExitSignalBase = 128;

struct Context {
  HttpClient& http;
  Api& api;
  Console& console;
  Interrupt& interrupt;
  const base::Clock& clock;
  base::Random& random;
  const GlobalOptions& global;
  const Environment& environment;
};

Result<int> login(Context& context, const LoginOptions& options);
Result<int> create(Context& context, const CreateOptions& options);
Result<int> list(Context& context, const ListOptions& options);
Result<int> get(Context& context, const GetOptions& options);
Result<int> run(Context& context, const RunOptions& options);
Result<int> exec(Context& context, const ExecOptions& options);
Result<int> copy(Context& context, const CopyOptions& options);
Result<int> events(Context& context, const EventsOptions& options);
Result<int> remove(Context& context, const RemoveOptions& options);
Result<int> image_pull(Context& context, const ImagePullOptions& options);
Result<int> image_list(Context& context, const ImageListOptions& options);
Result<int> image_remove(Context& context, const ImageRemoveOptions& options);
Result<int> image_import(Context& context, const ImageImportOptions& options);
Result<int> image_gc(Context& context, const ImageGcOptions& options);
Result<int> version(Context& context, const VersionOptions& options);
Result<int> completion(Context& context, const CompletionOptions& options);

// The value as JSON or YAML, or `table` when that is what was asked for or nothing was.
Result<void> print_value(Context& context, const wire::json::Value& value,
                         const std::string& table);

}  // namespace cli
