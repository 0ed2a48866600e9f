// The keys of secrets at rest (service/secret_box.h), the oldest first: those of a file (32 bytes
// each, one after the other) and those that an operator's command prints. Which of them seals says
// the store; the others open what they sealed. Pure, but for the file; blocks.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "base/secret.h"

namespace service {

inline constexpr size_t kMasterKeyBytes = 32;
// A rotation needs two; more are forgotten ones.
inline constexpr size_t kMasterKeysMax = 8;
// Of a key's id, which stands before what it sealed. Nine are twelve letters of base64, so that the
// store finds them by how its text begins.
inline constexpr size_t kKeyIdBytes = 9;

struct MasterKey {
  std::string id;           // 18 hexadecimal digits, the first of its fingerprint
  std::string raw_id;       // the same in kKeyIdBytes bytes
  std::string fingerprint;  // tells keys apart and says nothing of them
  base::Secret bytes;
};
using KeyRing = std::vector<MasterKey>;

MasterKey make_master_key(base::Secret bytes);
MasterKey new_master_key(base::Random& random);
// HMAC-SHA256 by a key; lower-case hex.
std::string keyed_hash(const base::Secret& key, std::string_view text);

// Null: there is none of that id.
const MasterKey* find_key(const KeyRing& keys, std::string_view id);
// Both, each key once.
KeyRing join_keys(const KeyRing& first, const KeyRing& second);

base::Result<KeyRing> parse_key_file(std::string_view bytes);
// What a command prints: a key a line, 64 hexadecimal digits or base64; empty lines are nothing.
// Errors tell the line, never a part of it.
base::Result<KeyRing> parse_key_lines(std::string_view text);

// Empty: there is no such file.
base::Result<KeyRing> read_key_file(const std::string& path);
// Written to the disk, whole or not at all, for the same user as the file before it; without keys
// there is no file afterwards.
base::Result<void> write_key_file(const std::string& path, const KeyRing& keys);

}  // namespace service
