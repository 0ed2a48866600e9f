#include "service/build_context.h"

#include <openssl/evp.h>

#include <array>

#include "service/token_hash.h"

namespace service {
namespace {

using base::cat;
using base::ErrorCode;
using base::Result;
using wire::tar::EntryType;

constexpr uint32_t kModeBits = 07777;

std::unexpected<base::Error> outside(std::string_view path) {
  return base::fail(ErrorCode::archive_invalid, "the context's member '",
                    base::is_utf8(path) ? path : "?", "' leads outside it");
}

// Without "." and empty parts; "" for the context itself.
Result<std::string> clean_path(std::string_view path) {
  if (path.starts_with('/')) {
    return outside(path);
  }
  std::string clean;
  for (const std::string_view part : base::split(path, '/')) {
    if (part == "..") {
      return outside(path);
    }
    if (!part.empty() && part != ".") {
      clean += cat(clean.empty() ? "" : "/", part);
    }
  }
  return clean;
}

char kind_of(EntryType type) {
  switch (type) {
    case EntryType::file:
      return 'f';
    case EntryType::folder:
      return 'd';
    case EntryType::symlink:
      return 'l';
    case EntryType::hardlink:
      return 'h';
    default:
      return '\0';
  }
}

}  // namespace

void BuildContext::Free::operator()(evp_md_ctx_st* context) const { ::EVP_MD_CTX_free(context); }

BuildContext::BuildContext() : hash_(::EVP_MD_CTX_new()) {}

Result<void> BuildContext::begin_member() {
  const wire::tar::Entry& entry = reader_.entry();
  ASSIGN_OR_RETURN(path_, clean_path(entry.path));
  const char kind = kind_of(entry.type);
  if (kind == '\0') {
    return base::fail(ErrorCode::archive_invalid, "the context's member '",
                      base::is_utf8(path_) ? path_ : "?", "' is no file, folder or link");
  }
  std::string target = entry.target;
  if (entry.type == EntryType::hardlink) {
    ASSIGN_OR_RETURN(target, clean_path(entry.target));
  }
  if (members_.size() >= kMembersMax) {
    return base::fail(ErrorCode::body_too_large, "the context has more than ", kMembersMax,
                      " members");
  }
  ::EVP_DigestInit_ex(hash_.get(), ::EVP_sha256(), nullptr);
  if (!path_.empty()) {
    // A link's own mode means nothing, and archives differ in it.
    const uint32_t mode = kind == 'l' ? 0 : entry.mode & kModeBits;
    members_[path_] = cat(kind, " ", mode, " ", entry.size, " ", base::hex(target));
  }
  return {};
}

void BuildContext::hash_piece(uint64_t offset, std::string_view data) {
  // Holes of a sparse file are zeros nobody sent: where a piece stands is part of the content.
  if (reader_.entry().is_sparse) {
    const std::string place = cat("@", offset, " ");
    ::EVP_DigestUpdate(hash_.get(), place.data(), place.size());
  }
  ::EVP_DigestUpdate(hash_.get(), data.data(), data.size());
}

Result<void> BuildContext::take(std::string_view bytes) {
  bytes_ += bytes.size();
  if (bytes_ > kBytesMax) {
    return base::fail(ErrorCode::body_too_large, "the context exceeds ", kBytesMax, " bytes");
  }
  for (;;) {
    ASSIGN_OR_RETURN(const auto step, reader_.next(bytes));
    bytes.remove_prefix(step.consumed);
    switch (step.found) {
      case wire::tar::Reader::Found::more_input:
        return {};
      case wire::tar::Reader::Found::entry:
        RETURN_IF_ERROR(begin_member());
        break;
      case wire::tar::Reader::Found::data:
        hash_piece(step.offset, step.data);
        break;
      case wire::tar::Reader::Found::entry_end: {
        std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
        unsigned size = 0;
        ::EVP_DigestFinal_ex(hash_.get(), digest.data(), &size);
        if (!path_.empty()) {
          members_[path_] +=
              cat(" ", base::hex({reinterpret_cast<const char*>(digest.data()), size}));
        }
        break;
      }
      case wire::tar::Reader::Found::archive_end:
        break;
    }
  }
}

Result<std::string> BuildContext::finish(std::string_view team, const BuildOptions& options) {
  RETURN_IF_ERROR(reader_.end_of_input());
  ASSIGN_OR_RETURN(const std::string dockerfile, clean_path(options.dockerfile));
  if (!members_.contains(dockerfile)) {
    return base::fail(ErrorCode::dockerfile_invalid, "the context has no file '",
                      options.dockerfile, "'");
  }
  // Each part with its length, so that no two requests give the same text.
  std::string text = "build 1\n";
  const auto add = [&text](std::string_view part) { text += cat(part.size(), ":", part, "\n"); };
  for (const std::string_view part :
       {team, std::string_view(dockerfile), std::string_view(options.target),
        std::string_view(options.platform)}) {
    add(part);
  }
  for (const auto& [name, value] : options.arguments) {
    add(name);
    add(value);
  }
  text += "--\n";
  for (const auto& [path, line] : members_) {
    add(path);
    add(line);
  }
  return token_hash(text);
}

}  // namespace service
