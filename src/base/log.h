// Structured logs: one JSON object a line on standard error, a constant message plus typed fields.
// Values are escaped, so nothing a client or a sandbox sent can forge a line. Secrets do not
// convert to a field.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

namespace base {

enum class LogLevel { debug, info, warning, error };

struct LogField {
  std::string_view key;
  std::string value;
  bool quoted = true;

  LogField(std::string_view k, std::string_view v) : key(k), value(v) {}
  LogField(std::string_view k, const std::string& v) : key(k), value(v) {}
  LogField(std::string_view k, const char* v) : key(k), value(v) {}
  LogField(std::string_view k, int64_t v) : key(k), value(std::to_string(v)), quoted(false) {}
  LogField(std::string_view k, uint64_t v) : key(k), value(std::to_string(v)), quoted(false) {}
  LogField(std::string_view k, int v) : LogField(k, static_cast<int64_t>(v)) {}
  LogField(std::string_view k, bool v) : key(k), value(v ? "true" : "false"), quoted(false) {}
};

class Log {
 public:
  // Writes to `fd` (not owned), one write(2) a line.
  explicit Log(int fd, LogLevel least = LogLevel::info) : fd_(fd), least_(least) {}

  void debug(std::string_view message, std::initializer_list<LogField> fields = {});
  void info(std::string_view message, std::initializer_list<LogField> fields = {});
  void warning(std::string_view message, std::initializer_list<LogField> fields = {});
  void error(std::string_view message, std::initializer_list<LogField> fields = {});

 private:
  void write(LogLevel level, std::string_view message, std::initializer_list<LogField> fields);

  int fd_;
  LogLevel least_;
};

// `text` as a JSON string with its quotes; bytes that are not UTF-8 become U+FFFD.
void append_json_string(std::string& out, std::string_view text);

}  // namespace base
