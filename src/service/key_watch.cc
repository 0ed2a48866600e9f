#include "service/key_watch.h"

#include <algorithm>

namespace service {
namespace {

using base::Result;
using net::Task;

}  // namespace

KeyWatch::KeyWatch(Context& context, SecretBox& box, Registries& registries, Lifecycle& lifecycle,
                   std::string file, KeyRing of_command)
    : context_(context),
      box_(box),
      registries_(registries),
      lifecycle_(lifecycle),
      file_(std::move(file)),
      of_command_(std::move(of_command)) {}

Task<Result<void>> KeyWatch::use(KeyRing keys, std::string current) {
  const bool drops_some = std::ranges::any_of(
      box_.keys(), [&keys](const MasterKey& key) { return find_key(keys, key.id) == nullptr; });
  if (drops_some) {
    // Until then what is in memory may still be sealed by it.
    box_.use(join_keys(box_.keys(), keys), current);
    CO_RETURN_IF_ERROR(co_await registries_.load());
    CO_RETURN_IF_ERROR(co_await lifecycle_.refresh_all());
  }
  box_.use(std::move(keys), current);
  context_.log.info("the keys of secrets have changed", {{"keys", box_.key_ids()}});
  co_return Result<void>{};
}

Task<Result<void>> KeyWatch::look() {
  if (const base::FileStamp now = base::file_stamp(file_); now != stamp_) {
    CO_ASSIGN_OR_RETURN(of_file_, read_key_file(file_));
    stamp_ = now;
  }
  auto read = [this] { return context_.store.find_fact(kKeyFact); };
  CO_ASSIGN_OR_RETURN(const auto fact, co_await context_.pool.run(std::move(read)));
  KeyRing keys = join_keys(of_file_, of_command_);
  const auto found = std::ranges::find(keys, fact.value_or(""), &MasterKey::fingerprint);
  if (found == keys.end()) {
    co_return base::fail(base::ErrorCode::conflict,
                         "the key that the store is used with is not here: copy secret.key of "
                         "another gateway");
  }
  std::string current = found->id;
  if (current != box_.current().id ||
      !std::ranges::equal(keys, box_.keys(), {}, &MasterKey::id, &MasterKey::id)) {
    CO_RETURN_IF_ERROR(co_await use(std::move(keys), std::move(current)));
  }
  if (const std::string ids = box_.key_ids(); ids != told_) {
    auto tell = [this, &ids] {
      return context_.store.set_fact(keys_told_fact(context_.replicas.id()), ids);
    };
    CO_RETURN_IF_ERROR(co_await context_.pool.run(std::move(tell)));
    told_ = ids;
  }
  co_return Result<void>{};
}

Task<void> KeyWatch::run() {
  for (;;) {
    const auto wake = co_await context_.loop.sleep_until(net::Deadline::after(kLook));
    if (wake == net::EventLoop::Wake::cancelled) {
      co_return;
    }
    const auto looked = co_await look();
    std::string complaint = looked ? "" : looked.error().message;
    if (!complaint.empty() && complaint != complaint_) {
      context_.log.error("the keys of secrets stay as they are", {{"error", complaint}});
    }
    complaint_ = std::move(complaint);
  }
}

}  // namespace service
