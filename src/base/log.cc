#include "base/log.h"

#include <unistd.h>

#include "base/clock.h"
#include "base/json_escape.h"
#include "base/text.h"

namespace base {
namespace {

std::string_view name(LogLevel level) {
  switch (level) {
    case LogLevel::debug:
      return "debug";
    case LogLevel::info:
      return "info";
    case LogLevel::warning:
      return "warning";
    case LogLevel::error:
      return "error";
  }
  return "error";
}

// Length of the character at the front, 0 if it is not UTF-8.
size_t character_length(std::string_view bytes) {
  for (size_t length = 1; length <= 4 && length <= bytes.size(); ++length) {
    if (is_utf8(bytes.substr(0, length))) {
      return length;
    }
  }
  return 0;
}

// DEL too: a line is read on a terminal.
void append_escaped(std::string& out, unsigned char c) {
  constexpr unsigned char kDelete = 0x7F;
  const JsonEscape& escape = kJsonEscapes[c];
  out += c == kDelete ? "\\u007f" : std::string_view(escape.text.data(), escape.size);
}

}  // namespace

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  while (!text.empty()) {
    const auto byte = static_cast<unsigned char>(text.front());
    if (byte < kJsonEscapes.size()) {
      append_escaped(out, byte);
      text.remove_prefix(1);
      continue;
    }
    const size_t length = character_length(text);
    out += length == 0 ? std::string_view("\uFFFD") : text.substr(0, length);
    text.remove_prefix(length == 0 ? 1 : length);
  }
  out += '"';
}

void Log::debug(std::string_view message, std::initializer_list<LogField> fields) {
  write(LogLevel::debug, message, fields);
}
void Log::info(std::string_view message, std::initializer_list<LogField> fields) {
  write(LogLevel::info, message, fields);
}
void Log::warning(std::string_view message, std::initializer_list<LogField> fields) {
  write(LogLevel::warning, message, fields);
}
void Log::error(std::string_view message, std::initializer_list<LogField> fields) {
  write(LogLevel::error, message, fields);
}

void Log::write(LogLevel level, std::string_view message, std::initializer_list<LogField> fields) {
  if (level < least_) {
    return;
  }
  std::string line = cat("{\"at\":\"", rfc3339(RealClock().wall()), "\",\"level\":\"", name(level),
                         "\",\"message\":");
  append_json_string(line, message);
  for (const LogField& field : fields) {
    line += ',';
    append_json_string(line, field.key);
    line += ':';
    if (field.quoted) {
      append_json_string(line, field.value);
    } else {
      line += field.value;
    }
  }
  line += "}\n";
  // A log that cannot be written must not stop the service.
  [[maybe_unused]] const ssize_t written = ::write(fd_, line.data(), line.size());
}

}  // namespace base
