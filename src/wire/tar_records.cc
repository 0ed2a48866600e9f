#include "wire/tar_records.h"

#include <algorithm>
#include <limits>
#include <type_traits>
#include <utility>

#include "base/text.h"

namespace wire::tar {
namespace {

constexpr size_t kAttributesMax = 256;
constexpr size_t kAttributeBytesMax = size_t{64} * 1024;  // XATTR_SIZE_MAX
constexpr int kNanosecondDigits = 9;

std::unexpected<base::Error> broken(std::string_view words) {
  return base::fail(base::ErrorCode::archive_invalid, words);
}

// "1700000000.25", "-0.5": rounded down to a nanosecond.
std::optional<Time> parse_time(std::string_view text) {
  const bool negative = text.starts_with('-');
  text.remove_prefix(negative ? 1 : 0);
  const size_t dot = text.find('.');
  const auto seconds = base::parse_number<uint64_t>(text.substr(0, dot));
  if (!seconds || *seconds > std::numeric_limits<int64_t>::max() - 1) {
    return std::nullopt;
  }
  int32_t nanoseconds = 0;
  bool rest = false;
  if (dot != std::string_view::npos) {
    const std::string_view fraction = text.substr(dot + 1);
    for (size_t i = 0; i < std::max<size_t>(fraction.size(), kNanosecondDigits); ++i) {
      const char digit = i < fraction.size() ? fraction[i] : '0';
      if (digit < '0' || digit > '9') {
        return std::nullopt;
      }
      if (i < kNanosecondDigits) {
        nanoseconds = nanoseconds * 10 + (digit - '0');
      } else {
        rest = rest || digit != '0';
      }
    }
  }
  constexpr int32_t kSecond = 1'000'000'000;
  if (!negative) {
    return Time{.seconds = static_cast<int64_t>(*seconds), .nanoseconds = nanoseconds};
  }
  nanoseconds += rest ? 1 : 0;
  const int32_t up = nanoseconds == 0 ? 0 : kSecond - nanoseconds;
  return Time{.seconds = -static_cast<int64_t>(*seconds) - (nanoseconds == 0 ? 0 : 1),
              .nanoseconds = up};
}

Result<void> apply_sparse(Overrides& out, std::string_view key, std::string_view value) {
  const auto number = base::parse_number<uint64_t>(value);
  const auto add = [&](uint64_t offset, uint64_t size) -> Result<void> {
    if (out.parts.size() == kPartsMax) {
      return broken("the map of a sparse file is too long");
    }
    out.parts.push_back({.offset = offset, .size = size});
    return {};
  };
  if (key == "GNU.sparse.map") {
    const auto numbers = value.empty() ? std::vector<std::string_view>() : base::split(value, ',');
    if (numbers.size() % 2 != 0) {
      return broken("the map of a sparse file is wrong");
    }
    out.has_parts = true;
    out.parts.clear();
    for (size_t i = 0; i < numbers.size(); i += 2) {
      const auto offset = base::parse_number<uint64_t>(numbers[i]);
      const auto size = base::parse_number<uint64_t>(numbers[i + 1]);
      if (!offset || !size) {
        return broken("the map of a sparse file is wrong");
      }
      RETURN_IF_ERROR(add(*offset, *size));
    }
    return {};
  }
  if (!number) {
    return broken("a number of a sparse file is none");
  }
  if (key == "GNU.sparse.size" || key == "GNU.sparse.realsize") {
    out.sparse_size = number;
  } else if (key == "GNU.sparse.numblocks") {
    out.has_parts = true;
  } else if (key == "GNU.sparse.major") {
    out.map_in_data = *number == 1;
    if (*number > 1) {
      return broken("a sparse file of an unknown format");
    }
  } else if (key == "GNU.sparse.offset") {
    out.sparse_offset = number;
  } else if (key == "GNU.sparse.numbytes") {
    if (!out.sparse_offset) {
      return broken("the map of a sparse file is wrong");
    }
    out.has_parts = true;
    RETURN_IF_ERROR(add(*std::exchange(out.sparse_offset, std::nullopt), *number));
  }
  return {};
}

Result<void> apply_record(Overrides& out, std::string_view key, std::string_view value) {
  constexpr std::string_view kAttribute = "SCHILY.xattr.";
  const auto number = [&](auto& field) -> Result<void> {
    using Number = typename std::remove_reference_t<decltype(field)>::value_type;
    field = value.empty() ? std::nullopt : base::parse_number<Number>(value);
    if (!field && !value.empty()) {
      return broken("a record of an extended header is no number");
    }
    return {};
  };
  const auto name = [&](std::optional<std::string>& field) -> Result<void> {
    if (value.find('\0') != std::string_view::npos || value.size() > kLongNameBytesMax) {
      return broken("a name in an extended header holds NUL or is too long");
    }
    field = value.empty() ? std::nullopt : std::optional<std::string>(value);
    return {};
  };
  if (key == "path") {
    return name(out.path);
  }
  if (key == "linkpath") {
    return name(out.target);
  }
  if (key == "size") {
    return number(out.size);
  }
  if (key == "uid") {
    return number(out.uid);
  }
  if (key == "gid") {
    return number(out.gid);
  }
  if (key == "mtime") {
    out.modified = value.empty() ? std::nullopt : parse_time(value);
    return out.modified || value.empty() ? Result<void>{} : broken("'mtime' is no time");
  }
  if (key.starts_with(kAttribute)) {
    key.remove_prefix(kAttribute.size());
    if (key.empty() || key.find('\0') != std::string_view::npos ||
        value.size() > kAttributeBytesMax || out.attributes.size() == kAttributesMax) {
      return broken("too many or too large extended attributes");
    }
    out.attributes.insert_or_assign(std::string(key), std::string(value));
    return {};
  }
  if (key == "GNU.sparse.name") {
    return name(out.sparse_path);
  }
  if (key.starts_with("GNU.sparse.")) {
    return apply_sparse(out, key, value);
  }
  return {};  // times of access, names of owners, comments
}

}  // namespace

// "LENGTH KEY=VALUE\n", the length in decimal and that of the whole record.
Result<void> read_records(std::string_view rest, Overrides& out) {
  while (!rest.empty() && rest.front() != '\0') {
    const size_t blank = rest.find(' ');
    const auto length = base::parse_number<size_t>(rest.substr(0, blank));
    if (!length || *length > rest.size() || *length < blank + 2 || rest[*length - 1] != '\n') {
      return broken("a record of an extended header has a wrong length");
    }
    const std::string_view record = rest.substr(blank + 1, *length - blank - 2);
    rest.remove_prefix(*length);
    const size_t equals = record.find('=');
    if (equals == std::string_view::npos || equals == 0) {
      return broken("a record of an extended header has no name");
    }
    RETURN_IF_ERROR(apply_record(out, record.substr(0, equals), record.substr(equals + 1)));
  }
  if (out.sparse_offset) {
    return broken("the map of a sparse file is wrong");
  }
  return {};
}

}  // namespace wire::tar
