#include "compose/values.h"

#include <array>
#include <charconv>
#include <cmath>

#include "base/text.h"
#include "compose/refusal.h"

namespace compose {
namespace {

using base::Result;
using wire::json::Value;

constexpr size_t kWordsMax = 1024;
constexpr int64_t kDurationMsMax = int64_t{7} * 24 * 3600 * 1000;
constexpr double kMilli = 1000;
constexpr double kCpusMax = 4096;
// Far above any machine.
constexpr double kBytesMax = 1e15;

// A number in front, and what stands behind it.
std::optional<double> take_number(std::string_view& text) {
  double number = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (error != std::errc{} || !std::isfinite(number) || number < 0) {
    return std::nullopt;
  }
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return number;
}

struct Unit {
  std::string_view name;
  double factor;
};
constexpr std::array kDurations{Unit{"h", 3'600'000}, Unit{"ms", 1},   Unit{"us", 0.001},
                                Unit{"m", 60'000},    Unit{"s", 1000}, Unit{"ns", 1e-6}};
constexpr double kKilo = 1024;
constexpr std::array kSizes{Unit{"", 1},
                            Unit{"b", 1},
                            Unit{"k", kKilo},
                            Unit{"kb", kKilo},
                            Unit{"m", kKilo* kKilo},
                            Unit{"mb", kKilo* kKilo},
                            Unit{"g", kKilo* kKilo* kKilo},
                            Unit{"gb", kKilo* kKilo* kKilo},
                            Unit{"t", kKilo* kKilo* kKilo* kKilo},
                            Unit{"tb", kKilo* kKilo* kKilo* kKilo}};

// Splits as a shell does: blanks, quotes, backslashes; nothing is expanded.
class Words {
 public:
  explicit Words(std::string_view text) : text_(text) {}

  // nullopt: a quote does not end.
  std::optional<std::vector<std::string>> split() {
    for (size_t at = 0; at < text_.size(); ++at) {
      const char c = text_[at];
      if (quote_ == 0 && (c == ' ' || c == '\t' || c == '\n' || c == '\r')) {
        end_word();
      } else if (quote_ == 0 && (c == '\'' || c == '"')) {
        quote_ = c;
        in_word_ = true;
      } else if (quote_ != 0 && c == quote_) {
        quote_ = 0;
      } else if (c == '\\' && quote_ != '\'' && at + 1 < text_.size()) {
        take_escape(text_[++at]);
      } else {
        add(c);
      }
    }
    if (quote_ != 0) {
      return std::nullopt;
    }
    end_word();
    return std::move(words_);
  }

 private:
  void add(char c) {
    word_ += c;
    in_word_ = true;
  }
  void take_escape(char c) {
    constexpr std::string_view kEscapedInQuotes = "\"\\$`";
    if (quote_ == '"' && kEscapedInQuotes.find(c) == std::string_view::npos) {
      add('\\');
    }
    add(c);
  }
  void end_word() {
    if (in_word_) {
      words_.push_back(std::move(word_));
      word_.clear();
      in_word_ = false;
    }
  }

  std::string_view text_;
  std::vector<std::string> words_;
  std::string word_;
  bool in_word_ = false;
  char quote_ = 0;
};

}  // namespace

std::optional<std::string> scalar_text(const Value& value) {
  if (value.is_string()) {
    return std::string(value.get_string());
  }
  if (value.is_bool()) {
    return value.get_bool() ? "true" : "false";
  }
  if (value.is_int64()) {
    return base::cat(value.get_int64());
  }
  if (value.is_uint64()) {
    return base::cat(value.get_uint64());
  }
  if (value.is_double()) {
    std::array<char, 64> digits{};
    const auto [end, error] =
        std::to_chars(digits.data(), digits.data() + digits.size(), value.get_double());
    if (error == std::errc{}) {
      return std::string(digits.data(), end);
    }
  }
  return std::nullopt;
}

Result<std::string> read_text(const Value& value, std::string_view field) {
  auto text = scalar_text(value);
  if (!text) {
    return refuse(field, "must be a text");
  }
  if (text->find('\0') != std::string::npos) {
    return refuse(field, "holds a NUL");
  }
  return std::move(*text);
}

Result<const wire::json::Object*> read_mapping(const Value& value, std::string_view field) {
  if (!value.is_object()) {
    return refuse(field, "must be a mapping");
  }
  return &value.get_object();
}

Result<bool> read_bool(const Value& value, std::string_view field) {
  const auto text = scalar_text(value);
  if (text == "true" || text == "yes" || text == "on") {
    return true;
  }
  if (text == "false" || text == "no" || text == "off") {
    return false;
  }
  return refuse(field, "must be true or false");
}

Result<int64_t> read_integer(const Value& value, std::string_view field, int64_t least,
                             int64_t most) {
  const auto text = scalar_text(value);
  const auto number = text ? base::parse_number<int64_t>(*text) : std::nullopt;
  if (!number || *number < least || *number > most) {
    return refuse(field, "must be a whole number from ", least, " to ", most);
  }
  return *number;
}

Result<std::vector<std::string>> read_texts(const Value& value, std::string_view field) {
  std::vector<std::string> out;
  if (!value.is_array()) {
    ASSIGN_OR_RETURN(std::string text, read_text(value, field));
    out.push_back(std::move(text));
    return out;
  }
  for (const Value& item : value.get_array()) {
    ASSIGN_OR_RETURN(std::string text, read_text(item, field));
    out.push_back(std::move(text));
    if (out.size() > kWordsMax) {
      return refuse(field, "has more than ", kWordsMax, " items");
    }
  }
  return out;
}

Result<std::vector<std::string>> read_words(const Value& value, std::string_view field) {
  if (value.is_array()) {
    return read_texts(value, field);
  }
  ASSIGN_OR_RETURN(const std::string text, read_text(value, field));
  auto words = Words(text).split();
  if (!words || words->size() > kWordsMax) {
    return refuse(field, words ? "has too many words" : "has a quote that does not end");
  }
  return std::move(*words);
}

Result<int64_t> read_duration_ms(const Value& value, std::string_view field) {
  const auto text = scalar_text(value);
  std::string_view rest = text ? std::string_view(*text) : std::string_view();
  double sum = 0;
  bool fine = !rest.empty();
  while (fine && !rest.empty()) {
    const auto number = take_number(rest);
    const Unit* unit = nullptr;
    for (const Unit& known : kDurations) {
      // The longest name that fits: "ms" is no "m".
      if (rest.starts_with(known.name) &&
          (unit == nullptr || known.name.size() > unit->name.size())) {
        unit = &known;
      }
    }
    fine = number && (unit != nullptr || (*number == 0 && rest.empty()));
    if (fine && unit != nullptr) {
      sum += *number * unit->factor;
      rest.remove_prefix(unit->name.size());
    }
  }
  if (!fine || sum > static_cast<double>(kDurationMsMax)) {
    return refuse(field, "must be a duration as 1m30s or 500ms, at most a week");
  }
  return static_cast<int64_t>(std::ceil(sum));
}

Result<int64_t> read_bytes(const Value& value, std::string_view field) {
  const auto text = scalar_text(value);
  const std::string low = text ? base::lower(*text) : "";
  std::string_view rest = low;
  if (const auto number = take_number(rest)) {
    for (const Unit& unit : kSizes) {
      if (base::trim(rest) == unit.name && *number * unit.factor <= kBytesMax) {
        return static_cast<int64_t>(std::ceil(*number * unit.factor));
      }
    }
  }
  return refuse(field, "must be a size as 512m or 1gb");
}

Result<int64_t> read_millicpus(const Value& value, std::string_view field) {
  const auto text = scalar_text(value);
  std::string_view rest = text ? std::string_view(*text) : std::string_view();
  const auto number = take_number(rest);
  if (!number || !rest.empty() || *number > kCpusMax) {
    return refuse(field, "must be a number of cpus as 0.5");
  }
  return static_cast<int64_t>(std::ceil(*number * kMilli));
}

}  // namespace compose
