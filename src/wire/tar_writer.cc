#include "wire/tar_writer.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/text.h"

namespace wire::tar {
namespace {

constexpr size_t kNameBytes = 100;
constexpr size_t kPrefixBytes = 155;
constexpr int64_t kIdMax = 07777777;         // seven octal digits
constexpr uint64_t kSizeMax = 077777777777;  // eleven
constexpr int64_t kTimeMax = 077777777777;
constexpr int32_t kSecond = 1'000'000'000;
constexpr uint32_t kModeMask = 07777;
constexpr std::string_view kUstar("ustar\00000", 8);

char type_flag(EntryType type) {
  switch (type) {
    case EntryType::file:
      return '0';
    case EntryType::hardlink:
      return '1';
    case EntryType::symlink:
      return '2';
    case EntryType::character_device:
      return '3';
    case EntryType::block_device:
      return '4';
    case EntryType::folder:
      return '5';
    case EntryType::fifo:
      return '6';
  }
  return '0';
}

// What one 512-byte head holds.
struct Block {
  std::string_view name;
  std::string_view prefix;
  std::string_view target;
  char type = '0';
  uint32_t mode = 0;
  int64_t uid = 0;
  int64_t gid = 0;
  uint64_t size = 0;
  int64_t seconds = 0;
};

using Bytes = std::array<char, kBlockBytes>;

void put_text(Bytes& block, size_t at, std::string_view text) {
  std::ranges::copy(text, block.begin() + static_cast<ptrdiff_t>(at));
}

// `width` octal digits with zeros in front; a NUL follows.
void put_octal(Bytes& block, size_t at, size_t width, uint64_t value) {
  for (size_t i = width; i-- > 0; value /= 8) {
    block[at + i] = static_cast<char>('0' + value % 8);
  }
}

void append_block(std::string& out, const Block& from) {
  Bytes block{};
  put_text(block, 0, from.name);
  put_octal(block, 100, 7, from.mode & kModeMask);
  put_octal(block, 108, 7, static_cast<uint64_t>(from.uid));
  put_octal(block, 116, 7, static_cast<uint64_t>(from.gid));
  put_octal(block, 124, 11, from.size);
  put_octal(block, 136, 11, static_cast<uint64_t>(from.seconds));
  block[156] = from.type;
  put_text(block, 157, from.target);
  put_text(block, 257, kUstar);
  put_text(block, 345, from.prefix);
  put_text(block, 148, "        ");
  uint64_t sum = 0;
  for (const char c : block) {
    sum += static_cast<unsigned char>(c);
  }
  put_octal(block, 148, 6, sum);
  block[154] = '\0';
  out.append(block.data(), block.size());
}

// "LENGTH KEY=VALUE\n": the length counts its own digits.
void append_record(std::string& out, std::string_view key, std::string_view value) {
  const size_t rest = key.size() + value.size() + 3;  // blank, equals sign, newline
  size_t length = rest;
  while (length != rest + base::cat(length).size()) {
    length = rest + base::cat(length).size();
  }
  out += base::cat(length, " ", key, "=", value, "\n");
}

std::string time_text(Time time) {
  const bool negative = time.seconds < 0;
  int64_t seconds = time.seconds;
  int32_t nanoseconds = time.nanoseconds;
  if (negative && nanoseconds > 0) {
    ++seconds;
    nanoseconds = kSecond - nanoseconds;
  }
  std::string text = base::cat(negative && seconds == 0 ? "-" : "", seconds);
  if (nanoseconds > 0) {
    const std::string digits = base::cat(kSecond + nanoseconds);
    text += base::cat(".", std::string_view(digits).substr(1));
    text.erase(text.find_last_not_of('0') + 1);
  }
  return text;
}

// A path of up to 256 bytes may stand in two fields, cut at a slash. False if it fits neither way.
bool split_name(std::string_view path, Block& block) {
  if (path.size() <= kNameBytes) {
    block.name = path;
    return true;
  }
  const size_t slash = path.find('/', path.size() - kNameBytes - 1);
  if (slash == std::string_view::npos || slash == 0 || slash > kPrefixBytes ||
      slash + 1 == path.size()) {
    return false;
  }
  block.prefix = path.substr(0, slash);
  block.name = path.substr(slash + 1);
  return true;
}

// Format 1.0: a line a number, in whole blocks.
std::string sparse_map(const Entry& entry) {
  std::string map = base::cat(entry.parts.size(), "\n");
  for (const Part& part : entry.parts) {
    map += base::cat(part.offset, "\n", part.size, "\n");
  }
  map.append(padding(map.size()), '\0');
  return map;
}

// Puts what a head can hold in `block` and the rest in records.
std::string fit(const Entry& entry, uint64_t stored, Block& block) {
  std::string records;
  const bool is_long = !entry.is_sparse && !split_name(entry.path, block);
  const bool has_text_record = entry.is_sparse || is_long || entry.target.size() > kNameBytes;
  if (has_text_record && !(base::is_utf8(entry.path) && base::is_utf8(entry.target))) {
    // Names in records are UTF-8 unless this says that they are bytes.
    append_record(records, "hdrcharset", "BINARY");
  }
  if (entry.is_sparse) {
    append_record(records, "GNU.sparse.major", "1");
    append_record(records, "GNU.sparse.minor", "0");
    append_record(records, "GNU.sparse.name", entry.path);
    append_record(records, "GNU.sparse.realsize", base::cat(entry.size));
    // A reader that knows none of this makes a file of that name.
    block.name = "GNUSparseFile";
  } else if (is_long) {
    append_record(records, "path", entry.path);
    block.name = std::string_view(entry.path).substr(0, kNameBytes);
  }
  if (entry.target.size() > kNameBytes) {
    append_record(records, "linkpath", entry.target);
  }
  block.target = std::string_view(entry.target).substr(0, kNameBytes);
  const auto number = [&](std::string_view key, auto value, auto most) {
    if (value >= 0 && value <= most) {
      return value;
    }
    append_record(records, key, base::cat(value));
    return decltype(value){0};
  };
  block.uid = number("uid", entry.uid, kIdMax);
  block.gid = number("gid", entry.gid, kIdMax);
  block.size = number("size", stored, kSizeMax);
  const Time time = entry.modified;
  block.seconds = std::clamp<int64_t>(time.seconds, 0, kTimeMax);
  if (time.nanoseconds != 0 || time.seconds != block.seconds) {
    append_record(records, "mtime", time_text(time));
  }
  for (const auto& [name, value] : entry.attributes) {
    append_record(records, base::cat("SCHILY.xattr.", name), value);
  }
  return records;
}

}  // namespace

uint64_t data_size(const Entry& entry) {
  if (entry.type != EntryType::file) {
    return 0;
  }
  if (!entry.is_sparse) {
    return entry.size;
  }
  uint64_t sum = 0;
  for (const Part& part : entry.parts) {
    sum += part.size;
  }
  return sum;
}

void append_head(std::string& out, const Entry& entry) {
  const std::string map = entry.is_sparse ? sparse_map(entry) : std::string();
  Block block{.type = type_flag(entry.type), .mode = entry.mode};
  const std::string records = fit(entry, data_size(entry) + map.size(), block);
  if (!records.empty()) {
    append_block(out, {.name = "PaxHeader", .type = 'x', .mode = 0644, .size = records.size()});
    out += records;
    out.append(padding(records.size()), '\0');
  }
  append_block(out, block);
  out += map;
}

}  // namespace wire::tar
