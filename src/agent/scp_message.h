// Lines of the old scp protocol as values. Pure; what a peer sends is hostile: every line is
// checked, and a name that is no plain name is refused.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace agent::scp {

// Without its newline; a name of 255 bytes in the longest form of a line takes 300.
inline constexpr size_t kLineBytesMax = 4096;

struct Times {
  int64_t modified_at = 0;  // seconds
  int64_t accessed_at = 0;
};

struct Message {
  enum class Kind : uint8_t { file, folder, end_of_folder, times, warning, fatal };
  Kind kind = Kind::file;
  uint32_t mode = 0;  // file, folder
  uint64_t size = 0;  // file
  std::string name;   // file, folder; of warning and fatal: the text
  Times times;        // times
};

// "C0644 12 name", "D0755 0 name", "E", "T1 0 2 0", "\1text", "\2text".
base::Result<Message> parse_message(std::string_view line);
// The same back, with its newline. A newline in a name becomes "\^J", as OpenSSH has it.
std::string file_line(uint32_t mode, uint64_t size, std::string_view name);
std::string folder_line(uint32_t mode, std::string_view name);
std::string times_line(Times times);
// "\1scp: text\n"
std::string warning_line(std::string_view text);

// What the words behind `scp` ask for.
struct Options {
  bool to = false;  // -t: take files; else -f: give them
  bool recursive = false;
  bool keep_times = false;    // -p: and modes
  bool needs_folder = false;  // -d: the target must be one
  std::vector<std::string> patterns;
};
base::Result<Options> parse_options(const std::vector<std::string>& words);

}  // namespace agent::scp
