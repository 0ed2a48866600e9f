#include "service/master_keys.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <span>

#include "base/sys.h"

namespace service {
namespace {

using base::ErrorCode;
using base::Result;

constexpr mode_t kKeyMode = 0600;

std::optional<std::string> decode_hex(std::string_view text) {
  const auto digit = [](char c) {
    constexpr int kTen = 10;
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + kTen
           : c >= 'A' && c <= 'F' ? c - 'A' + kTen
                                  : -1;
  };
  constexpr int kBits = 4;
  std::string out;
  for (size_t i = 0; i + 1 < text.size(); i += 2) {
    if (digit(text[i]) < 0 || digit(text[i + 1]) < 0) {
      return std::nullopt;
    }
    out += static_cast<char>((digit(text[i]) << kBits) | digit(text[i + 1]));
  }
  return out;
}

Result<void> add_key(KeyRing& keys, base::Secret bytes) {
  MasterKey key = make_master_key(std::move(bytes));
  if (find_key(keys, key.id) != nullptr) {
    return base::fail(ErrorCode::malformed, "a key stands there twice");
  }
  if (keys.size() == kMasterKeysMax) {
    return base::fail(ErrorCode::malformed, "there are more than ", kMasterKeysMax, " keys");
  }
  keys.push_back(std::move(key));
  return {};
}

Result<void> sync_path(const std::string& path) {
  ASSIGN_OR_RETURN(const base::Fd file, base::sys::open(path, O_RDONLY));
  return ::fsync(file.get()) == 0 ? Result<void>{} : base::fail_errno(errno, "fsync ", path);
}

}  // namespace

std::string keyed_hash(const base::Secret& key, std::string_view text) {
  std::string digest(SHA256_DIGEST_LENGTH, '\0');
  unsigned int size = 0;
  if (::HMAC(EVP_sha256(), key.reveal().data(), static_cast<int>(key.reveal().size()),
             reinterpret_cast<const unsigned char*>(text.data()), text.size(),
             reinterpret_cast<unsigned char*>(digest.data()), &size) == nullptr) {
    std::abort();  // only wrong use or no memory
  }
  return base::hex(digest);
}

MasterKey make_master_key(base::Secret bytes) {
  MasterKey key;
  key.fingerprint = keyed_hash(bytes, "fingerprint");
  key.id = key.fingerprint.substr(0, 2 * kKeyIdBytes);
  key.raw_id = decode_hex(key.id).value_or("");
  key.bytes = std::move(bytes);
  return key;
}

MasterKey new_master_key(base::Random& random) {
  std::string bytes(kMasterKeyBytes, '\0');
  random.fill(std::span(reinterpret_cast<unsigned char*>(bytes.data()), bytes.size()));
  return make_master_key(base::Secret(std::move(bytes)));
}

const MasterKey* find_key(const KeyRing& keys, std::string_view id) {
  const auto found = std::ranges::find(keys, id, &MasterKey::id);
  return found == keys.end() ? nullptr : &*found;
}

KeyRing join_keys(const KeyRing& first, const KeyRing& second) {
  KeyRing out = first;
  for (const MasterKey& key : second) {
    if (find_key(out, key.id) == nullptr) {
      out.push_back(key);
    }
  }
  return out;
}

Result<KeyRing> parse_key_file(std::string_view bytes) {
  if (bytes.empty() || bytes.size() % kMasterKeyBytes != 0) {
    return base::fail(ErrorCode::malformed, "it does not hold keys of ", kMasterKeyBytes,
                      " bytes each");
  }
  KeyRing keys;
  for (size_t at = 0; at < bytes.size(); at += kMasterKeyBytes) {
    RETURN_IF_ERROR(add_key(keys, base::Secret(std::string(bytes.substr(at, kMasterKeyBytes)))));
  }
  return keys;
}

Result<KeyRing> parse_key_lines(std::string_view text) {
  KeyRing keys;
  size_t number = 0;
  for (const std::string_view line : base::split(text, '\n')) {
    ++number;
    const std::string_view word = base::trim(line);
    if (word.empty()) {
      continue;
    }
    auto bytes = word.size() == 2 * kMasterKeyBytes ? decode_hex(word) : base::decode_base64(word);
    if (!bytes || bytes->size() != kMasterKeyBytes) {
      return base::fail(ErrorCode::malformed, "line ", number, " is not a key of ", kMasterKeyBytes,
                        " bytes in hexadecimal digits or base64");
    }
    RETURN_IF_ERROR(add_key(keys, base::Secret(std::move(*bytes))));
  }
  if (keys.empty()) {
    return base::fail(ErrorCode::malformed, "there is no key");
  }
  return keys;
}

Result<KeyRing> read_key_file(const std::string& path) {
  auto found = base::sys::read_file(path, (kMasterKeysMax * kMasterKeyBytes) + 1);
  if (!found && found.error().errno_value == ENOENT) {
    return KeyRing{};
  }
  RETURN_IF_ERROR(found);
  const base::Secret bytes(std::move(*found));
  return base::with_context(parse_key_file(bytes.reveal()), path);
}

Result<void> write_key_file(const std::string& path, const KeyRing& keys) {
  const std::string folder = path.substr(0, path.rfind('/') + 1);
  if (keys.empty()) {
    if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
      return base::fail_errno(errno, "remove ", path);
    }
    return sync_path(folder);
  }
  struct stat before{};
  const bool is_there = ::stat(path.c_str(), &before) == 0;
  const std::string fresh = path + ".new";
  // The folder is the gateway's user's, and root may write here: never through a link, never into
  // a file that was there.
  ::unlink(fresh.c_str());
  {
    ASSIGN_OR_RETURN(const base::Fd file,
                     base::sys::open(fresh, O_WRONLY | O_CREAT | O_EXCL, kKeyMode));
    for (const MasterKey& key : keys) {
      RETURN_IF_ERROR(base::with_context(base::sys::write_all(file.get(), key.bytes.reveal()),
                                         base::cat("write ", fresh)));
    }
    const bool is_right = ::fchmod(file.get(), kKeyMode) == 0 &&
                          (!is_there || ::fchown(file.get(), before.st_uid, before.st_gid) == 0) &&
                          ::fsync(file.get()) == 0;
    if (!is_right) {
      return base::fail_errno(errno, "write ", fresh);
    }
  }
  if (::rename(fresh.c_str(), path.c_str()) != 0) {
    return base::fail_errno(errno, "replace ", path);
  }
  return sync_path(folder);
}

}  // namespace service
