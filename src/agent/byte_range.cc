#include "agent/byte_range.h"

#include <algorithm>
#include <array>
#include <chrono>

namespace agent {
namespace {

// One that is greater than any number is past every end all the same.
std::optional<uint64_t> parse_position(std::string_view text) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  if (text.empty() || !std::ranges::all_of(text, is_digit)) {
    return std::nullopt;
  }
  return base::parse_number<uint64_t>(text).value_or(UINT64_MAX);
}

}  // namespace

Result<std::optional<ByteRange>> parse_range(std::string_view header, uint64_t size) {
  constexpr std::string_view kUnit = "bytes=";
  if (!base::equals_ignoring_case(header.substr(0, kUnit.size()), kUnit)) {
    return std::nullopt;
  }
  const std::string_view range = base::trim(header.substr(kUnit.size()));
  const size_t dash = range.find('-');
  if (dash == std::string_view::npos || range.find(',') != std::string_view::npos) {
    return std::nullopt;
  }
  const std::string_view first = range.substr(0, dash);
  const std::string_view last = range.substr(dash + 1);
  const auto begin = parse_position(first);
  const auto end = parse_position(last);
  const bool broken = (first.empty() && !end) || (!first.empty() && !begin) ||
                      (!last.empty() && !end) || (begin && end && *end < *begin);
  if (broken) {
    return std::nullopt;
  }
  if ((begin && *begin >= size) || (!begin && (*end == 0 || size == 0))) {
    return std::unexpected(base::Error{.code = base::ErrorCode::range_not_satisfiable,
                                       .message = base::cat("the file has ", size, " bytes"),
                                       .details = {{"size", base::cat(size)}}});
  }
  if (!begin) {
    const uint64_t wanted = std::min(*end, size);
    return ByteRange{.begin = size - wanted, .size = wanted};
  }
  const uint64_t stop = end ? std::min(*end, size - 1) : size - 1;
  return ByteRange{.begin = *begin, .size = stop - *begin + 1};
}

std::string http_date(int64_t seconds) {
  using namespace std::chrono;
  static constexpr std::array<std::string_view, 7> kDays = {"Sun", "Mon", "Tue", "Wed",
                                                            "Thu", "Fri", "Sat"};
  static constexpr std::array<std::string_view, 12> kMonths = {
      "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  // Years that a four-digit date can show; a file's time may be any number.
  constexpr int64_t kSecondsMax = 253'402'300'799;
  const sys_seconds time{std::chrono::seconds(std::clamp<int64_t>(seconds, 0, kSecondsMax))};
  const sys_days day = floor<days>(time);
  const year_month_day date{day};
  const hh_mm_ss clock{time - day};
  const auto two = [](int64_t number) { return base::cat(number < 10 ? "0" : "", number); };
  return base::cat(kDays.at(weekday{day}.c_encoding()), ", ",
                   two(static_cast<unsigned>(date.day())), " ",
                   kMonths.at(static_cast<unsigned>(date.month()) - 1), " ",
                   static_cast<int>(date.year()), " ", two(clock.hours().count()), ":",
                   two(clock.minutes().count()), ":", two(clock.seconds().count()), " GMT");
}

}  // namespace agent
