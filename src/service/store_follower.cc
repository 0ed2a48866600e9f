#include "service/store_follower.h"

namespace service {
namespace {

using base::Result;
using net::Task;

// Between two tries to reach a store that does not answer.
constexpr base::Milliseconds kRetryPause{500};

}  // namespace

StoreFollower::StoreFollower(Context& context, std::optional<store::ChangeFeed> feed,
                             Access& access, Registries& registries, TokenLimitTable& limits,
                             IdentityKeys& identity_keys, Lifecycle& lifecycle)
    : context_(context),
      feed_(std::move(feed)),
      access_(access),
      registries_(registries),
      limits_(limits),
      identity_keys_(identity_keys),
      lifecycle_(lifecycle),
      listening_(context.loop, 1) {}

Task<Result<void>> StoreFollower::begin() {
  if (feed_) {
    CO_RETURN_IF_ERROR(co_await hear());
    // Nothing else was read yet.
    stale_ = {.all = false, .sandboxes = {}, .kinds = {std::string(store::notice::kTeams)}};
    context_.replicas.set_hearing(true);
  }
  co_return Result<void>{};
}

// Waits for the next news and notes what they make stale.
Task<Result<void>> StoreFollower::hear() {
  auto listen = [this] { return feed_->next(); };
  CO_ASSIGN_OR_RETURN(const auto news, co_await listening_.run(std::move(listen)));
  stale_.all = stale_.all || news.missed;
  for (const store::Notice& notice : news.notices) {
    if (notice.kind == store::notice::kSandbox) {
      stale_.sandboxes.insert(notice.id);
    } else {
      stale_.kinds.insert(notice.kind);
    }
  }
  co_return Result<void>{};
}

Task<Result<void>> StoreFollower::read_teams() {
  auto read = [this] { return context_.store.list_teams(); };
  CO_ASSIGN_OR_RETURN(auto rows, co_await context_.pool.run(std::move(read)));
  context_.teams.replace(std::move(rows));
  co_return Result<void>{};
}

Task<Result<void>> StoreFollower::read(Stale stale) {
  const auto is_stale = [&stale](std::string_view kind) {
    return stale.all || stale.kinds.contains(std::string(kind));
  };
  if (is_stale(store::notice::kReplicas)) {
    CO_RETURN_IF_ERROR(co_await context_.replicas.beat());
    lifecycle_.look_after_orphans();
  }
  if (is_stale(store::notice::kTeams)) {
    CO_RETURN_IF_ERROR(co_await read_teams());
  }
  if (is_stale(store::notice::kTokens)) {
    CO_RETURN_IF_ERROR(co_await access_.load());
  }
  if (is_stale(store::notice::kTokenLimits)) {
    CO_RETURN_IF_ERROR(co_await limits_.load());
  }
  if (is_stale(store::notice::kRegistries)) {
    CO_RETURN_IF_ERROR(co_await registries_.load());
  }
  if (is_stale(store::notice::kIdentityKeys)) {
    CO_RETURN_IF_ERROR(co_await identity_keys_.load());
  }
  if (stale.all || context_.replicas.has_unread()) {
    const uint64_t departures = context_.replicas.departures();
    CO_RETURN_IF_ERROR(co_await lifecycle_.refresh_all());
    context_.replicas.note_read(departures);
    co_return Result<void>{};
  }
  if (!stale.sandboxes.empty()) {
    co_return co_await lifecycle_.refresh({stale.sandboxes.begin(), stale.sandboxes.end()});
  }
  co_return Result<void>{};
}

Task<void> StoreFollower::run() {
  bool is_listening = true;
  while (feed_ && !stopping_) {
    Result<void> done;
    if (!is_listening || !stale_.any()) {
      auto heard = co_await hear();
      done = std::move(heard);
      is_listening = done.has_value();
    }
    if (done && stale_.any()) {
      Stale reading = std::exchange(stale_, {});
      auto were_read = co_await read(reading);
      done = std::move(were_read);
      if (!done) {
        stale_.all = true;
      }
    }
    if (done) {
      context_.replicas.set_hearing(true);
      continue;
    }
    if (stopping_) {
      break;
    }
    // Until it is all read, requests look at the store themselves (Replicas::alone).
    context_.replicas.set_hearing(false);
    context_.log.warning("changes of other gateways are not heard of",
                         {{"error", done.error().message}});
    co_await context_.loop.sleep_until(net::Deadline::after(kRetryPause));
  }
}

void StoreFollower::catch_up() {
  if (context_.replicas.has_unread()) {
    read_all();
  }
}

void StoreFollower::read_all() {
  stale_.all = true;
  if (feed_) {
    feed_->interrupt();
  }
}

void StoreFollower::stop() {
  stopping_ = true;
  if (feed_) {
    feed_->interrupt();
  }
}

}  // namespace service
