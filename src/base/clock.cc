#include "base/clock.h"

#include <algorithm>

#include "base/text.h"

namespace base {
namespace {

void append_padded(std::string& out, int value, int width) {
  const std::string digits = cat(value);
  out.append(static_cast<size_t>(std::max(0, width - static_cast<int>(digits.size()))), '0');
  out += digits;
}

// Takes what a time is made of off the front of a text, piece by piece.
class TimeReader {
 public:
  explicit TimeReader(std::string_view text) : rest_(text) {}

  // Exactly that many digits, in [least, most].
  bool number(size_t digits, int least, int most, int& value) {
    if (rest_.size() < digits || rest_.find_first_not_of("0123456789") < digits) {
      return false;
    }
    value = *parse_number<int>(rest_.substr(0, digits));
    rest_.remove_prefix(digits);
    return value >= least && value <= most;
  }
  bool one_of(std::string_view letters, char& letter) {
    if (rest_.empty() || !letters.contains(rest_.front())) {
      return false;
    }
    letter = rest_.front();
    rest_.remove_prefix(1);
    return true;
  }
  bool letter(char wanted) {
    char found = 0;
    return one_of(std::string_view(&wanted, 1), found);
  }
  // Digits after a point as milliseconds; without a point 0.
  bool fraction(int& milliseconds) {
    milliseconds = 0;
    if (!letter('.')) {
      return true;
    }
    const size_t digits = std::min(rest_.find_first_not_of("0123456789"), rest_.size());
    for (size_t i = 0; i < 3; ++i) {
      milliseconds = milliseconds * 10 + (i < digits ? rest_[i] - '0' : 0);
    }
    rest_.remove_prefix(digits);
    return digits > 0;
  }
  // Z, an offset, or nothing: minutes east.
  bool offset(int& minutes) {
    char sign = 'Z';
    minutes = 0;
    if (rest_.empty() || (one_of("Zz", sign) && rest_.empty())) {
      return true;
    }
    int hour = 0;
    int minute = 0;
    if (!one_of("+-", sign) || !number(2, 0, 23, hour) || !letter(':') ||
        !number(2, 0, 59, minute) || !rest_.empty()) {
      return false;
    }
    minutes = (hour * 60 + minute) * (sign == '-' ? -1 : 1);
    return true;
  }

 private:
  std::string_view rest_;
};

}  // namespace

std::string rfc3339(WallTime time) {
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date{day};
  const std::chrono::hh_mm_ss clock{time - day};
  std::string out;
  append_padded(out, static_cast<int>(date.year()), 4);
  out += '-';
  append_padded(out, static_cast<int>(static_cast<unsigned>(date.month())), 2);
  out += '-';
  append_padded(out, static_cast<int>(static_cast<unsigned>(date.day())), 2);
  out += 'T';
  append_padded(out, static_cast<int>(clock.hours().count()), 2);
  out += ':';
  append_padded(out, static_cast<int>(clock.minutes().count()), 2);
  out += ':';
  append_padded(out, static_cast<int>(clock.seconds().count()), 2);
  out += '.';
  append_padded(out, static_cast<int>(clock.subseconds().count()), 3);
  out += 'Z';
  return out;
}

std::optional<WallTime> parse_rfc3339(std::string_view text) {
  TimeReader reader(text);
  int year = 0;
  int month = 0;
  int day = 0;
  int hour = 0;
  int minute = 0;
  int second = 0;
  int milliseconds = 0;
  int offset = 0;
  char separator = 0;
  if (!reader.number(4, 1970, 9999, year) || !reader.letter('-') ||
      !reader.number(2, 1, 12, month) || !reader.letter('-') || !reader.number(2, 1, 31, day) ||
      !reader.one_of("Tt ", separator) || !reader.number(2, 0, 23, hour) || !reader.letter(':') ||
      !reader.number(2, 0, 59, minute) || !reader.letter(':') || !reader.number(2, 0, 60, second) ||
      !reader.fraction(milliseconds) || !reader.offset(offset)) {
    return std::nullopt;
  }
  const std::chrono::year_month_day date{std::chrono::year(year),
                                         std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  if (!date.ok()) {
    return std::nullopt;
  }
  return WallTime{std::chrono::sys_days{date}} + std::chrono::hours(hour) +
         std::chrono::minutes(minute - offset) + std::chrono::seconds(second) +
         Milliseconds(milliseconds);
}

}  // namespace base
