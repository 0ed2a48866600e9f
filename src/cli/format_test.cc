#include "cli/format.h"

#include <gtest/gtest.h>

namespace cli {
namespace {

using wire::json::parse;

TEST(EscapeForTerminal, makes_control_sequences_visible) {
  EXPECT_EQ(escape_for_terminal("a\x1b[31mb\x07\r\n\t"), "a\\x1b[31mb\\x07\\x0d\\x0a\\x09");
  EXPECT_EQ(escape_for_terminal("\xc2\x9b"
                                "31m\x7f"),
            "\\x9b31m\\x7f");  // C1 in UTF-8, DEL
}

TEST(EscapeForTerminal, keeps_text_of_any_language) {
  EXPECT_EQ(escape_for_terminal("Grüße 東京 🦀"), "Grüße 東京 🦀");
}

TEST(EscapeForTerminal, shows_bytes_that_are_not_utf8) {
  EXPECT_EQ(escape_for_terminal("\xff\xc3(\xe2\x82"), "\\xff\\xc3(\\xe2\\x82");
}

TEST(EscapeForTerminal, shows_characters_that_reorder_or_hide) {
  EXPECT_EQ(escape_for_terminal("a\u202eb\u200bc\u2066"), "a\\u202eb\\u200bc\\u2066");
}

TEST(ClipColumns, counts_characters_not_bytes) {
  EXPECT_EQ(clip_columns("äöü", 3), "äöü");
  EXPECT_EQ(clip_columns("äöüß", 3), "äö…");
}

TEST(FormatJson, escapes_what_a_terminal_acts_on_and_stays_json) {
  const auto value = parse(R"({"a":"\u001b[2J\u009b\u202e","b":[1,{}],"c":[]})");
  ASSERT_TRUE(value);
  const std::string text = format_json(*value);
  EXPECT_EQ(text,
            "{\n  \"a\": \"\\u001b[2J\\u009b\\u202e\",\n  \"b\": [\n    1,\n    {}\n  ],\n"
            "  \"c\": []\n}\n");
  const auto again = parse(text);
  ASSERT_TRUE(again);
  EXPECT_EQ(*again, *value);
}

TEST(FormatYaml, nests_and_quotes_what_would_change_its_type) {
  const auto value = parse(R"({"id":"sbx-1","labels":{"a":"yes","b":"1","c":"x: y"},
                               "items":[{"k":1,"m":null},"t",[2]],"none":{},"k":"a\nb"})");
  ASSERT_TRUE(value);
  EXPECT_EQ(format_yaml(*value),
            "id: sbx-1\nlabels:\n  a: \"yes\"\n  b: \"1\"\n  c: \"x: y\"\nitems:\n"
            "  - k: 1\n    m: null\n  - t\n  - - 2\nnone: {}\nk: \"a\\nb\"\n");
}

TEST(FormatTable, aligns_by_characters_and_escapes_cells) {
  EXPECT_EQ(format_table({"ID", "NAME"}, {{"ä", "x\x1b"}, {"abc", ""}}),
            "ID   NAME\nä    x\\x1b\nabc  -\n");
}

TEST(FormatPairs, leaves_empty_values_out) {
  EXPECT_EQ(format_pairs({{"Id", "1"}, {"Message", ""}, {"State", "ready\n"}}),
            "Id:     1\nState:  ready\\x0a\n");
}

TEST(FormatBytes, uses_binary_units) {
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1536), "1.5 KiB");
  EXPECT_EQ(format_bytes(int64_t{12} << 30), "12.0 GiB");
}

TEST(FormatAge, rounds_down_to_one_unit) {
  const base::WallTime now = base::FakeClock().wall();  // 2026-01-01T00:00:00Z
  EXPECT_EQ(format_age("2025-12-31T23:59:15.999Z", now), "45s");
  EXPECT_EQ(format_age("2025-12-31T23:30:00Z", now), "30m");
  EXPECT_EQ(format_age("2025-12-31T00:00:00Z", now), "24h");
  EXPECT_EQ(format_age("2025-12-01T00:00:00Z", now), "31d");
  EXPECT_EQ(format_age("2026-01-01T00:00:09Z", now), "0s");  // a clock ahead of ours
  EXPECT_EQ(format_age("soon", now), "soon");
}

TEST(FieldText, shows_numbers_as_short_as_they_are) {
  const auto object = wire::json::parse_object(R"({"a":0.5,"b":1.0,"c":true,"d":null,"e":"x"})");
  ASSERT_TRUE(object);
  EXPECT_EQ(field_text(*object, "a"), "0.5");
  EXPECT_EQ(field_text(*object, "b"), "1");
  EXPECT_EQ(field_text(*object, "c"), "true");
  EXPECT_EQ(field_text(*object, "d"), "");
  EXPECT_EQ(field_text(*object, "e"), "x");
  EXPECT_EQ(field_text(*object, "f"), "");
}

}  // namespace
}  // namespace cli
