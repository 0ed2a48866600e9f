// IdentityKeys: what tokens of sandboxes are signed with. The keys are in the store, the private
// halves sealed; all gateways on it sign with the same one. The key after it is published already,
// so that no verifier meets one it has not been told of; one that signs no more stays published
// until the last token it has signed is over. Owned by main; loop thread only. load() comes before
// the rest. Bounds: a handful of keys, rotated at most once in kRotationPauseMs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "oidc/issuing_key.h"
#include "oidc/key_set.h"
#include "service/context.h"

namespace service {

class IdentityKeys {
 public:
  // So that nobody fills the published set: its readers take a hundred keys.
  static constexpr int64_t kRotationPauseMs = 1'000;

  struct Settings {
    int64_t rotation_ms = 0;  // how long one key signs; 0: until it is told to end
    int64_t lifetime_ms = 0;  // of a token
  };
  IdentityKeys(Context& context, Settings settings) : context_(context), settings_(settings) {}

  // What the store has; makes the first ones.
  net::Task<base::Result<void>> load();
  // Rotates in time, until cancelled. Spawned by main.
  net::Task<void> run();
  // From now on the next key signs. rate_limited: it was done a moment ago.
  net::Task<base::Result<void>> rotate();

  [[nodiscard]] const oidc::IssuingKey& signer() const { return *signer_; }
  // What verifiers are told (RFC 7517), and the same for our own checks.
  [[nodiscard]] const std::string& published() const { return published_; }
  [[nodiscard]] const oidc::KeySet& verifier() const { return *verifier_; }
  // Without private halves; by generation.
  [[nodiscard]] const std::vector<store::IdentityKey>& rows() const { return rows_; }
  // Since when the present key signs.
  [[nodiscard]] int64_t signing_since_ms() const;

 private:
  base::Result<void> take(std::vector<store::IdentityKey> rows);
  net::Task<base::Result<void>> advance();
  [[nodiscard]] store::IdentityKey make_row(int64_t generation) const;
  // The row that signs; nullptr: there is none.
  [[nodiscard]] const store::IdentityKey* current() const;

  Context& context_;
  Settings settings_;
  std::vector<store::IdentityKey> rows_;
  std::optional<oidc::IssuingKey> signer_;
  std::optional<oidc::KeySet> verifier_;
  std::string published_;
};

}  // namespace service
