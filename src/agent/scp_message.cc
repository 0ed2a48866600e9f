#include "agent/scp_message.h"

namespace agent::scp {
namespace {

using base::ErrorCode;
using base::Result;

constexpr uint32_t kModeBits = 07777;
constexpr size_t kModeDigits = 4;
constexpr size_t kPatternsMax = 1024;
constexpr int kOctal = 8;
constexpr char kWarning = '\1';
constexpr char kFatal = '\2';

std::unexpected<base::Error> broken(std::string_view why) {
  return base::fail(ErrorCode::malformed, "protocol error: ", why);
}

// Takes the next word off the line.
std::string_view take_word(std::string_view& rest) {
  const std::string_view word = rest.substr(0, rest.find(' '));
  rest.remove_prefix(std::min(rest.size(), word.size() + 1));
  return word;
}

bool is_plain_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\0", 2)) == std::string_view::npos;
}

Result<Message> parse_entry(Message::Kind kind, std::string_view rest) {
  const std::string_view mode_text = take_word(rest);
  const auto mode = base::parse_number<uint32_t>(mode_text, kOctal);
  const auto size = base::parse_number<uint64_t>(take_word(rest));
  if (mode_text.size() != kModeDigits || !mode || *mode > kModeBits) {
    return broken("bad mode");
  }
  if (!size || *size > INT64_MAX) {
    return broken("size not delimited");
  }
  if (!is_plain_name(rest)) {
    return base::fail(ErrorCode::path_invalid, rest, ": unexpected filename");
  }
  return Message{
      .kind = kind, .mode = *mode, .size = *size, .name = std::string(rest), .times = {}};
}

Result<Message> parse_times(std::string_view rest) {
  const auto modified_at = base::parse_number<int64_t>(take_word(rest));
  const auto modified_us = base::parse_number<int64_t>(take_word(rest));
  const auto accessed_at = base::parse_number<int64_t>(take_word(rest));
  const auto accessed_us = base::parse_number<int64_t>(rest);
  if (!modified_at || !modified_us || !accessed_at || !accessed_us || *modified_at < 0 ||
      *accessed_at < 0) {
    return broken("bad times");
  }
  return Message{.kind = Message::Kind::times,
                 .name = {},
                 .times = {.modified_at = *modified_at, .accessed_at = *accessed_at}};
}

std::string mode_text(uint32_t mode) {
  std::string text;
  constexpr unsigned kBitsPerDigit = 3;
  for (size_t i = kModeDigits; i > 0; --i) {
    text += static_cast<char>('0' + (mode >> (kBitsPerDigit * (i - 1)) & (kOctal - 1)));
  }
  return text;
}

std::string sent_name(std::string_view name) {
  std::string text;
  for (const char c : name) {
    c == '\n' ? base::append(text, "\\^J") : base::append(text, c);
  }
  return text;
}

bool take_flags(std::string_view flags, Options& options, bool& from) {
  for (const char flag : flags) {
    switch (flag) {
      case 't':
        options.to = true;
        break;
      case 'f':
        from = true;
        break;
      case 'r':
        options.recursive = true;
        break;
      case 'p':
        options.keep_times = true;
        break;
      case 'd':
        options.needs_folder = true;
        break;
      case 'v':
      case 'q':
        break;  // nothing is said beside the protocol
      default:
        return false;
    }
  }
  return !flags.empty();
}

}  // namespace

Result<Message> parse_message(std::string_view line) {
  if (line.empty()) {
    return broken("empty line");
  }
  const std::string_view rest = line.substr(1);
  switch (line.front()) {
    case 'C':
      return parse_entry(Message::Kind::file, rest);
    case 'D':
      return parse_entry(Message::Kind::folder, rest);
    case 'T':
      return parse_times(rest);
    case 'E':
      if (!rest.empty()) {
        return broken("text behind E");
      }
      return Message{.kind = Message::Kind::end_of_folder, .name = {}, .times = {}};
    case kWarning:
      return Message{.kind = Message::Kind::warning, .name = std::string(rest), .times = {}};
    case kFatal:
      return Message{.kind = Message::Kind::fatal, .name = std::string(rest), .times = {}};
    default:
      return broken("unexpected line");
  }
}

std::string file_line(uint32_t mode, uint64_t size, std::string_view name) {
  return base::cat("C", mode_text(mode), " ", size, " ", sent_name(name), "\n");
}

std::string folder_line(uint32_t mode, std::string_view name) {
  return base::cat("D", mode_text(mode), " 0 ", sent_name(name), "\n");
}

std::string times_line(Times times) {
  return base::cat("T", times.modified_at, " 0 ", times.accessed_at, " 0\n");
}

std::string warning_line(std::string_view text) {
  return base::cat(kWarning, "scp: ", sent_name(text.substr(0, kLineBytesMax / 2)), "\n");
}

Result<Options> parse_options(const std::vector<std::string>& words) {
  Options options;
  bool from = false;
  size_t next = 0;
  for (; next < words.size() && words[next].starts_with('-'); ++next) {
    if (words[next] == "--") {
      ++next;
      break;
    }
    if (!take_flags(std::string_view(words[next]).substr(1), options, from)) {
      return base::fail_field("argv", "scp knows no ", words[next], " here");
    }
  }
  options.patterns.assign(words.begin() + static_cast<ptrdiff_t>(next), words.end());
  if (options.to == from) {
    return base::fail_field("argv", "scp needs one of -t and -f");
  }
  if (options.patterns.empty() || options.patterns.size() > kPatternsMax ||
      (options.to && options.patterns.size() != 1)) {
    return base::fail_field("argv", "scp -t takes one path, scp -f 1 to ", kPatternsMax);
  }
  return options;
}

}  // namespace agent::scp
