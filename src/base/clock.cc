#include "base/clock.h"

#include "base/text.h"

namespace base {
namespace {

void append_padded(std::string& out, int value, int width) {
  const std::string digits = cat(value);
  out.append(static_cast<size_t>(std::max(0, width - static_cast<int>(digits.size()))), '0');
  out += digits;
}

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

}  // namespace base
