#include "base/log.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <concepts>
#include <string>

#include "base/secret.h"
#include "base/sys.h"

namespace base {
namespace {

std::string as_json(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

// What `write` puts on the log's descriptor.
template <typename Write>
std::string logged(LogLevel least, Write write) {
  auto ends = sys::make_pipe();
  Log log(ends->second.get(), least);
  write(log);
  ends->second.reset();
  return sys::read_all(ends->first.get(), 1 << 16).value_or("read failed");
}

TEST(Log, writes_one_json_object_a_line) {
  const std::string line = logged(LogLevel::info, [](Log& log) {
    log.info("sandbox started", {{"sandbox", "sb-1"}, {"took_ms", 12}, {"warm", true}});
  });
  EXPECT_TRUE(line.starts_with("{\"at\":\"20")) << line;
  EXPECT_TRUE(
      line.ends_with("\"level\":\"info\",\"message\":\"sandbox started\","
                     "\"sandbox\":\"sb-1\",\"took_ms\":12,\"warm\":true}\n"))
      << line;
}

TEST(Log, leaves_out_what_is_below_its_level) {
  const std::string lines = logged(LogLevel::warning, [](Log& log) {
    log.debug("a");
    log.info("b");
    log.warning("c");
    log.error("d");
  });
  EXPECT_EQ(std::ranges::count(lines, '\n'), 2);
}

TEST(Log, value_cannot_forge_a_line_or_a_field) {
  const std::string line = logged(LogLevel::info, [](Log& log) {
    log.info("m", {{"argv", "x\n{\"level\":\"error\"}\",\"admin\":\"1\r\x1b[2J"}});
  });
  EXPECT_EQ(std::ranges::count(line, '\n'), 1);
  EXPECT_EQ(line.find('\x1b'), std::string::npos);
  EXPECT_EQ(line.find('\r'), std::string::npos);
  EXPECT_EQ(line.find("\",\"admin\""), std::string::npos);
}

TEST(Log, survives_a_closed_descriptor) {
  Log log(-1);
  log.error("nobody reads this");
}

TEST(AppendJsonString, escapes_quotes_controls_and_what_is_not_utf8) {
  EXPECT_EQ(as_json("a\"b\\c"), "\"a\\\"b\\\\c\"");
  EXPECT_EQ(as_json(std::string_view("\0\x1f\x7f", 3)), "\"\\u0000\\u001f\\u007f\"");
  EXPECT_EQ(as_json("\xE2\x82\xAC"), "\"\xE2\x82\xAC\"");
  EXPECT_EQ(as_json("a\xFF\xE2\x82z"), "\"a\uFFFD\uFFFD\uFFFDz\"");
}

// Secrets have no way into a field, a message or a stream.
static_assert(!std::constructible_from<LogField, std::string_view, Secret>);
static_assert(!std::convertible_to<Secret, std::string_view>);
static_assert(!std::convertible_to<Secret, std::string>);

}  // namespace
}  // namespace base
