#include "wire/tar_reader.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "base/text.h"

namespace wire::tar {
namespace {

using base::ErrorCode;

constexpr size_t kNameShownMax = 200;
constexpr size_t kNumberDigitsMax = 20;  // 2^64
constexpr uint32_t kModeMask = 07777;
constexpr size_t kOldPartBytes = 24;
constexpr size_t kOldPartsInHead = 4;
constexpr size_t kOldPartsInBlock = 21;
constexpr size_t kOldExtendedFlag = 504;

// Where a field of a head stands.
struct Field {
  size_t at;
  size_t size;
};
constexpr Field kName{0, 100};
constexpr Field kMode{100, 8};
constexpr Field kUid{108, 8};
constexpr Field kGid{116, 8};
constexpr Field kSize{124, 12};
constexpr Field kTime{136, 12};
constexpr Field kChecksum{148, 8};
constexpr size_t kType = 156;
constexpr Field kTarget{157, 100};
constexpr Field kMagic{257, 8};
constexpr Field kPrefix{345, 155};
constexpr Field kStarPrefix{345, 131};  // star keeps times behind it
constexpr Field kStarMagic{508, 4};
constexpr size_t kOldParts = 386;
constexpr size_t kOldExtended = 482;
constexpr Field kOldRealSize{483, 12};

std::string_view bytes_of(const char* block, Field field) { return {block + field.at, field.size}; }

// Up to the first NUL; a full field has none.
std::string_view text_of(const char* block, Field field) {
  const std::string_view bytes = bytes_of(block, field);
  return bytes.substr(0, bytes.find('\0'));
}

// A name in a message: an archive's names may be long or no text at all.
std::string shown(std::string_view name) {
  std::string out;
  for (const char c : name.substr(0, kNameShownMax)) {
    out += static_cast<unsigned char>(c) < 0x20 || c == 0x7F ? '?' : c;
  }
  return out;
}

// GNU's form of numbers that octal digits cannot hold: big-endian two's complement behind a mark.
std::optional<int64_t> parse_base256(std::string_view field) {
  const auto first = static_cast<unsigned char>(field.front());
  const bool negative = (first & 0x40U) != 0;
  uint64_t value = negative ? ~uint64_t{0} : 0;
  const auto extended = static_cast<unsigned char>(negative ? first | 0x80U : first & 0x7FU);
  for (size_t i = 0; i < field.size(); ++i) {
    const auto byte = i == 0 ? extended : static_cast<unsigned char>(field[i]);
    // What falls out at the top may only repeat the sign.
    const uint64_t top = value >> 55U;
    if (top != (negative ? 0x1FFU : 0U)) {
      return std::nullopt;
    }
    value = value << 8U | byte;
  }
  return static_cast<int64_t>(value);
}

std::optional<int64_t> parse_field(std::string_view field) {
  if ((static_cast<unsigned char>(field.front()) & 0x80U) != 0) {
    return parse_base256(field);
  }
  const size_t begin = std::min(field.find_first_not_of(' '), field.size());
  field.remove_prefix(begin);
  const size_t end = field.find_first_of(std::string_view("\0 ", 2));
  field = field.substr(0, end);
  return field.empty() ? 0 : base::parse_number<int64_t>(field, 8);
}

bool has_right_checksum(const char* block) {
  const auto told = parse_field(bytes_of(block, kChecksum));
  int64_t as_unsigned = 0;
  int64_t as_signed = 0;  // some old programs summed signed characters
  for (size_t i = 0; i < kBlockBytes; ++i) {
    as_unsigned += static_cast<unsigned char>(block[i]);
    as_signed += static_cast<signed char>(block[i]);
  }
  for (const char c : bytes_of(block, kChecksum)) {
    as_unsigned += ' ' - static_cast<unsigned char>(c);
    as_signed += ' ' - static_cast<signed char>(c);
  }
  return told && (*told == as_unsigned || *told == as_signed);
}

std::string ustar_path(const char* block) {
  const std::string_view name = text_of(block, kName);
  const std::string_view magic = bytes_of(block, kMagic);
  if (!magic.starts_with(std::string_view("ustar\0", 6))) {
    return std::string(name);
  }
  const bool is_star = bytes_of(block, kStarMagic) == std::string_view("tar\0", 4);
  const std::string_view prefix = text_of(block, is_star ? kStarPrefix : kPrefix);
  return prefix.empty() ? std::string(name) : base::cat(prefix, "/", name);
}

std::optional<EntryType> entry_type(char type) {
  switch (type) {
    case '\0':
    case '0':
    case '7':  // contiguous
    case 'S':  // GNU's old sparse file
      return EntryType::file;
    case '1':
      return EntryType::hardlink;
    case '2':
      return EntryType::symlink;
    case '3':
      return EntryType::character_device;
    case '4':
      return EntryType::block_device;
    case '5':
    case 'D':  // GNU's folder with a list of names
      return EntryType::folder;
    case '6':
      return EntryType::fifo;
    default:
      return std::nullopt;
  }
}

}  // namespace

template <typename... Words>
std::unexpected<base::Error> Reader::broken(const Words&... words) const {
  base::Error error{.code = ErrorCode::archive_invalid,
                    .message = base::cat("the archive is broken: ", words...)};
  if (!entry_.path.empty()) {
    error.message += base::cat(" (member ", shown(entry_.path), ")");
    error.details.emplace_back("member", shown(entry_.path));
  }
  return std::unexpected(std::move(error));
}

const char* Reader::take_block(std::string_view input, size_t& consumed) {
  const std::string_view rest = input.substr(consumed);
  if (partial_size_ == 0 && rest.size() >= kBlockBytes) {
    consumed += kBlockBytes;
    return rest.data();
  }
  const size_t count = std::min(rest.size(), kBlockBytes - partial_size_);
  std::memcpy(partial_.data() + partial_size_, rest.data(), count);
  partial_size_ += count;
  consumed += count;
  if (partial_size_ < kBlockBytes) {
    return nullptr;
  }
  partial_size_ = 0;
  return partial_.data();
}

Result<Reader::Step> Reader::next(std::string_view input) {
  size_t consumed = 0;
  for (;;) {
    ASSIGN_OR_RETURN(const auto step, turn(input, consumed));
    if (step) {
      return *step;
    }
  }
}

Result<std::optional<Reader::Step>> Reader::turn(std::string_view input, size_t& consumed) {
  if (std::exchange(entry_ready_, false)) {
    return Step{.found = Found::entry, .consumed = consumed};
  }
  if (std::exchange(content_whole_, false)) {
    return Step{.found = Found::entry_end, .consumed = consumed};
  }
  if (state_ == State::data) {
    return give_data(input, consumed);
  }
  if (state_ == State::ended) {
    if (input.substr(consumed).find_first_not_of('\0') != std::string_view::npos) {
      entry_.path.clear();
      return broken("bytes behind its end");
    }
    return Step{.found = Found::more_input, .consumed = input.size()};
  }
  if (state_ == State::extension || state_ == State::skipped || state_ == State::padding) {
    return pass(input, consumed);
  }
  const char* block = take_block(input, consumed);
  if (block == nullptr) {
    return Step{.found = Found::more_input, .consumed = consumed};
  }
  if (state_ == State::sparse_blocks) {
    RETURN_IF_ERROR(read_old_parts(block, kOldPartsInBlock));
    if (block[kOldExtendedFlag] == '\0') {
      RETURN_IF_ERROR(check_parts());
      begin_data(left_);
    }
    return std::nullopt;
  }
  if (state_ == State::sparse_map) {
    RETURN_IF_ERROR(read_map_block(block));
    return std::nullopt;
  }
  if (std::string_view(block, kBlockBytes).find_first_not_of('\0') == std::string_view::npos) {
    if (local_ || long_path_ || long_target_) {
      return broken("it ends behind an extended header");
    }
    state_ = State::ended;
    return Step{.found = Found::archive_end, .consumed = consumed};
  }
  RETURN_IF_ERROR(read_head(block));
  return std::nullopt;
}

// What is held for later, or not at all.
Result<std::optional<Reader::Step>> Reader::pass(std::string_view input, size_t& consumed) {
  const auto take = [&](uint64_t most) {
    const auto count = static_cast<size_t>(std::min<uint64_t>(most, input.size() - consumed));
    consumed += count;
    return input.substr(consumed - count, count);
  };
  if (state_ == State::extension || state_ == State::skipped) {
    const std::string_view bytes = take(left_);
    left_ -= bytes.size();
    if (state_ == State::extension) {
      extension_ += bytes;
    }
    if (left_ > 0) {
      return Step{.found = Found::more_input, .consumed = consumed};
    }
    if (state_ == State::extension) {
      RETURN_IF_ERROR(finish_extension());
    }
    state_ = State::padding;
    return std::nullopt;
  }
  if (state_ == State::padding) {
    padding_ -= take(padding_).size();
    if (padding_ > 0) {
      return Step{.found = Found::more_input, .consumed = consumed};
    }
    state_ = State::head;
    return std::nullopt;
  }
  return std::nullopt;
}

Result<std::optional<Reader::Step>> Reader::give_data(std::string_view input, size_t& consumed) {
  uint64_t wanted = left_;
  uint64_t offset = offset_;
  if (entry_.is_sparse) {
    while (part_ < entry_.parts.size() && part_done_ == entry_.parts[part_].size) {
      ++part_;
      part_done_ = 0;
    }
    if (part_ < entry_.parts.size()) {
      wanted = entry_.parts[part_].size - part_done_;
      offset = entry_.parts[part_].offset + part_done_;
    }
  }
  if (left_ == 0) {
    content_whole_ = true;
    state_ = State::padding;
    return std::nullopt;
  }
  const std::string_view bytes =
      input.substr(consumed, static_cast<size_t>(std::min<uint64_t>(wanted, input.size())));
  if (bytes.empty()) {
    return Step{.found = Found::more_input, .consumed = consumed};
  }
  consumed += bytes.size();
  left_ -= bytes.size();
  part_done_ += bytes.size();
  offset_ += bytes.size();
  return Step{.found = Found::data, .consumed = consumed, .data = bytes, .offset = offset};
}

Result<void> Reader::end_of_input() const {
  if (state_ == State::ended) {
    return {};
  }
  return broken("it ends before its end: it was cut off");
}

Result<void> Reader::read_head(const char* block) {
  if (!local_ && !long_path_) {
    entry_.path = ustar_path(block);
  }
  if (!has_right_checksum(block)) {
    return broken("a head has a wrong checksum, or this is no tar archive");
  }
  const auto size = parse_field(bytes_of(block, kSize));
  if (!size || *size < 0) {
    return broken("a size is no number");
  }
  const char type = block[kType];
  const auto stored = static_cast<uint64_t>(*size);
  switch (type) {
    case 'x':
    case 'X':  // Solaris
    case 'g':
    case 'L':
    case 'K':
      return begin_extension(type, stored);
    case 'V':  // GNU's name of a volume
    case 'A':  // an access list of Solaris
      left_ = stored;
      padding_ = padding(stored);
      state_ = State::skipped;
      return {};
    default:
      return begin_entry(block, type);
  }
}

Result<void> Reader::begin_entry(const char* block, char type) {
  const Overrides over = local_ ? std::move(*local_) : global_;
  local_.reset();
  const auto long_path = std::exchange(long_path_, std::nullopt);
  const auto long_target = std::exchange(long_target_, std::nullopt);
  Entry entry;
  entry.path = over.sparse_path ? *over.sparse_path
               : over.path      ? *over.path
               : long_path      ? *long_path
                                : ustar_path(block);
  entry.target = over.target   ? *over.target
                 : long_target ? *long_target
                               : std::string(text_of(block, kTarget));
  entry_ = std::move(entry);
  const auto kind = entry_type(type);
  if (!kind) {
    return broken("a member of unknown kind '", shown({&type, 1}), "'");
  }
  entry_.type = *kind;
  const auto mode = parse_field(bytes_of(block, kMode));
  const auto uid = parse_field(bytes_of(block, kUid));
  const auto gid = parse_field(bytes_of(block, kGid));
  const auto time = parse_field(bytes_of(block, kTime));
  const auto size = parse_field(bytes_of(block, kSize));
  if (!mode || (!uid && !over.uid) || (!gid && !over.gid) || (!time && !over.modified) ||
      entry_.path.empty()) {
    return broken("a head whose fields make no sense");
  }
  entry_.mode = static_cast<uint32_t>(*mode) & kModeMask;
  entry_.uid = over.uid ? *over.uid : *uid;
  entry_.gid = over.gid ? *over.gid : *gid;
  entry_.modified = over.modified.value_or(Time{.seconds = time.value_or(0)});
  entry_.attributes.assign(over.attributes.begin(), over.attributes.end());
  const uint64_t stored = over.size.value_or(static_cast<uint64_t>(*size));
  if (stored > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) - kBlockBytes) {
    return broken("a size is out of range");
  }
  if (over.has_parts || over.map_in_data) {
    if (entry_.type != EntryType::file || !over.sparse_size) {
      return broken("a sparse file without its size");
    }
    entry_.is_sparse = true;
    entry_.size = *over.sparse_size;
    entry_.parts = over.parts;
    if (over.map_in_data) {
      entry_.parts.clear();
      state_ = State::sparse_map;
      left_ = stored;
      return {};
    }
  }
  return begin_content(block, type, stored);
}

Result<void> Reader::begin_content(const char* block, char type, uint64_t stored) {
  if (entry_.type == EntryType::file && !entry_.is_sparse && entry_.path.ends_with('/')) {
    // Before folders had a type of their own, a slash told them.
    entry_.type = EntryType::folder;
  }
  if (type == 'S') {
    const auto real = parse_field(bytes_of(block, kOldRealSize));
    if (!real || *real < 0) {
      return broken("a sparse file without its size");
    }
    entry_.is_sparse = true;
    entry_.size = static_cast<uint64_t>(*real);
    RETURN_IF_ERROR(read_old_parts(block + kOldParts, kOldPartsInHead));
    if (block[kOldExtended] != '\0') {
      left_ = stored;
      state_ = State::sparse_blocks;
      return {};
    }
  }
  if (entry_.type != EntryType::file) {
    // Only a folder's list of names stands behind its head; the size of a hard link is that of
    // the file it names.
    const uint64_t skipped = type == 'D' ? stored : 0;
    entry_ready_ = true;
    content_whole_ = true;
    left_ = skipped;
    padding_ = padding(skipped);
    state_ = State::skipped;
    return {};
  }
  left_ = stored;
  if (entry_.is_sparse) {
    RETURN_IF_ERROR(check_parts());
  } else {
    entry_.size = stored;
  }
  begin_data(stored);
  return {};
}

void Reader::begin_data(uint64_t stored) {
  left_ = stored;
  padding_ = padding(stored);
  part_ = 0;
  part_done_ = 0;
  offset_ = 0;
  entry_ready_ = true;
  state_ = State::data;
}

// The parts must be what the data that follows (`left_` bytes) fills.
Result<void> Reader::check_parts() {
  uint64_t end = 0;
  uint64_t sum = 0;
  if (entry_.size > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    return broken("a size is out of range");
  }
  for (const Part& part : entry_.parts) {
    if (part.offset < end || part.offset > entry_.size || part.size > entry_.size - part.offset) {
      return broken("the parts of a sparse file overlap or lie outside of it");
    }
    end = part.offset + part.size;
    sum += part.size;
  }
  if (sum != left_) {
    return broken("the parts of a sparse file are not as long as its data");
  }
  return {};
}

Result<void> Reader::read_old_parts(const char* fields, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const std::string_view at(fields + i * kOldPartBytes, kOldPartBytes / 2);
    const std::string_view length(at.data() + at.size(), kOldPartBytes / 2);
    if (length.front() == '\0') {
      return {};
    }
    const auto offset = parse_field(at);
    const auto size = parse_field(length);
    if (!offset || !size || *offset < 0 || *size < 0 || entry_.parts.size() == kPartsMax) {
      return broken("the map of a sparse file is wrong or too long");
    }
    entry_.parts.push_back(
        {.offset = static_cast<uint64_t>(*offset), .size = static_cast<uint64_t>(*size)});
  }
  return {};
}

// Format 1.0: decimal numbers a line, the count first, in whole blocks before the data.
Result<void> Reader::read_map_block(const char* block) {
  if (left_ < kBlockBytes) {
    return broken("a sparse file without its map");
  }
  left_ -= kBlockBytes;
  for (size_t i = 0; i < kBlockBytes; ++i) {
    if (block[i] != '\n') {
      number_ += block[i];
      if (number_.size() > kNumberDigitsMax) {
        return broken("the map of a sparse file is wrong");
      }
      continue;
    }
    const auto number = base::parse_number<uint64_t>(std::exchange(number_, {}));
    if (!number || (!map_count_ && *number > kPartsMax)) {
      return broken("the map of a sparse file is wrong or too long");
    }
    if (!map_count_) {
      map_count_ = number;
    } else if (!map_offset_) {
      map_offset_ = number;
    } else {
      entry_.parts.push_back({.offset = *map_offset_, .size = *number});
      map_offset_.reset();
    }
    if (!map_offset_ && entry_.parts.size() == *map_count_) {
      map_count_.reset();
      RETURN_IF_ERROR(check_parts());
      begin_data(left_);
      return {};
    }
  }
  return {};
}

Result<void> Reader::begin_extension(char type, uint64_t size) {
  const bool is_name = type == 'L' || type == 'K';
  if (size > (is_name ? kLongNameBytesMax : kExtensionBytesMax)) {
    return broken("an extended header of ", size, " bytes");
  }
  extension_type_ = type;
  extension_.clear();
  left_ = size;
  padding_ = padding(size);
  state_ = State::extension;
  return {};
}

Result<void> Reader::finish_extension() {
  if (extension_type_ == 'L' || extension_type_ == 'K') {
    extension_.resize(std::min(extension_.find('\0'), extension_.size()));
    auto& name = extension_type_ == 'L' ? long_path_ : long_target_;
    name = std::exchange(extension_, {});
    if (extension_type_ == 'L') {
      entry_.path = *long_path_;  // what errors name
    }
    return {};
  }
  if (extension_type_ == 'g') {
    RETURN_IF_ERROR(take_records(global_));
  } else {
    Overrides over = local_ ? std::move(*local_) : global_;
    RETURN_IF_ERROR(take_records(over));
    if (over.path) {
      entry_.path = *over.path;
    }
    local_ = std::move(over);
  }
  extension_ = {};
  return {};
}

Result<void> Reader::take_records(Overrides& out) const {
  const auto read = read_records(extension_, out);
  return read ? read : broken(read.error().message);
}

}  // namespace wire::tar
