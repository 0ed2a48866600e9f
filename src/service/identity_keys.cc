#include "service/identity_keys.h"

#include <algorithm>

#include "service/sealing.h"

namespace service {
namespace {

using base::ErrorCode;
using base::Result;
using net::Task;
using store::IdentityKey;

constexpr base::Milliseconds kLook{60'000};
// Beyond a token's life: clocks differ, and a gateway may sign with a key that it has not heard the
// end of.
constexpr int64_t kPublishedLongerMs = 600'000;
// Two keys can be unreadable (the key of secrets was lost); behind these is a new one.
constexpr int kAdvancesMax = 4;

std::string purpose_of(const std::string& id) {
  return seal_purpose(store::SealedKind::identity_key, id);
}

}  // namespace

const IdentityKey* IdentityKeys::current() const {
  const auto found = std::ranges::find(rows_, 0, &IdentityKey::ended_ms);
  return found == rows_.end() ? nullptr : &*found;
}

int64_t IdentityKeys::signing_since_ms() const {
  const IdentityKey* now = current();
  if (now == nullptr) {
    return 0;
  }
  const auto before = std::ranges::find(rows_, now->generation - 1, &IdentityKey::generation);
  return before == rows_.end() ? now->created_ms : before->ended_ms;
}

IdentityKey IdentityKeys::make_row(int64_t generation) const {
  const auto key = oidc::IssuingKey::make();
  return {
      .generation = generation,
      .id = key.id(),
      .public_key = key.public_text(),
      .private_sealed = context_.secrets.seal(key.private_text().reveal(), purpose_of(key.id())),
      .created_ms = context_.now_ms()};
}

// Becomes what it says; internal: the key that is to sign cannot be read.
Result<void> IdentityKeys::take(std::vector<IdentityKey> rows) {
  rows_ = std::move(rows);
  std::string published = R"({"keys":[)";
  for (const IdentityKey& row : rows_) {
    base::append(published, row.generation == rows_.front().generation ? "" : ",");
    published += row.public_key;
  }
  published += "]}";
  const IdentityKey* signing = current();
  if (signing == nullptr) {
    return base::fail(ErrorCode::not_found, "there is no signing key");
  }
  ASSIGN_OR_RETURN(auto verifier, oidc::KeySet::parse(published));
  ASSIGN_OR_RETURN(const auto text,
                   context_.secrets.unseal(signing->private_sealed, purpose_of(signing->id)));
  ASSIGN_OR_RETURN(auto signer, oidc::IssuingKey::parse(text));
  published_ = std::move(published);
  verifier_ = std::move(verifier);
  signer_ = std::move(signer);
  return {};
}

// Of several gateways that do it at once one makes the new key, and all have it.
Task<Result<void>> IdentityKeys::advance() {
  const int64_t now = context_.now_ms();
  const IdentityKey* ending = current();
  const int64_t ended = ending == nullptr ? 0 : ending->generation;
  const int64_t last = rows_.empty() ? 0 : rows_.back().generation;
  std::vector<IdentityKey> fresh{make_row(last + 1)};
  if (ending == nullptr || last == ended) {
    fresh.push_back(make_row(last + 2));
  }
  auto write = [this, &fresh, ended, now] {
    return context_.store.add_identity_keys(fresh, ended, now,
                                            now - settings_.lifetime_ms - kPublishedLongerMs);
  };
  const auto written = co_await context_.pool.run(std::move(write));
  if (!written && written.error().code != ErrorCode::conflict) {
    co_return written;
  }
  auto read = [this] { return context_.store.list_identity_keys(); };
  CO_ASSIGN_OR_RETURN(auto rows, co_await context_.pool.run(std::move(read)));
  co_return take(std::move(rows));
}

Task<Result<void>> IdentityKeys::load() {
  auto read = [this] { return context_.store.list_identity_keys(); };
  CO_ASSIGN_OR_RETURN(auto rows, co_await context_.pool.run(std::move(read)));
  auto taken = take(std::move(rows));
  for (int i = 0; i < kAdvancesMax && !taken; ++i) {
    if (taken.error().code != ErrorCode::not_found) {
      context_.log.warning("a key for tokens of sandboxes is passed over",
                           {{"error", taken.error().message}});
    }
    auto advanced = co_await advance();
    taken = std::move(advanced);
  }
  co_return taken;
}

Task<Result<void>> IdentityKeys::rotate() {
  if (context_.now_ms() - signing_since_ms() < kRotationPauseMs) {
    co_return base::fail(ErrorCode::rate_limited, "the present key signs since a moment ago only");
  }
  co_return co_await advance();
}

Task<void> IdentityKeys::run() {
  for (;;) {
    const auto wake = co_await context_.loop.sleep_until(net::Deadline::after(kLook));
    if (wake == net::EventLoop::Wake::cancelled) {
      co_return;
    }
    if (settings_.rotation_ms == 0 ||
        context_.now_ms() - signing_since_ms() < settings_.rotation_ms) {
      continue;
    }
    if (const auto rotated = co_await rotate(); !rotated) {
      context_.log.warning("the key for tokens of sandboxes could not be rotated",
                           {{"error", rotated.error().message}});
    }
  }
}

}  // namespace service
