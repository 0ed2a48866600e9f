#include "service/sign_ins.h"

#include <algorithm>
#include <tuple>

namespace service {
namespace {

using base::Result;
using net::Task;

constexpr int64_t kMsPerSecond = 1000;
// Of a session's last use; more would be a write for each request.
constexpr int64_t kUseWrittenEveryMs = 60'000;
// Of sessions that are not known here: who has an ended one can show it for ever.
constexpr int kLookUpsPerSecond = 50;

}  // namespace

Task<Result<void>> SignIns::load() {
  auto read = [this] { return context_.store.list_sign_ins(); };
  CO_ASSIGN_OR_RETURN(auto rows, co_await context_.pool.run(std::move(read)));
  std::unordered_map<std::string, SignInRow> fresh;
  for (SignInRow& row : rows) {
    if (const auto known = by_id_.find(row.id); known != by_id_.end()) {
      row.last_used_ms = std::max(row.last_used_ms, known->second.last_used_ms);
    }
    fresh.emplace(row.id, std::move(row));
  }
  by_id_ = std::move(fresh);
  co_return Result<void>{};
}

Task<bool> SignIns::look_up(std::string id) {
  if (context_.replicas.alone()) {
    co_return false;
  }
  const int64_t second = context_.now_ms() / kMsPerSecond;
  if (std::exchange(look_up_second_, second) != second) {
    look_ups_ = 0;
  }
  if (++look_ups_ > kLookUpsPerSecond) {
    co_return false;
  }
  auto read = [this, &id] { return context_.store.find_sign_in(id); };
  auto found = co_await context_.pool.run(std::move(read));
  if (!found || !*found) {
    co_return false;
  }
  by_id_.insert_or_assign(std::move(id), std::move(**found));
  co_return true;
}

Task<Result<void>> SignIns::add(SignInRow row) {
  const int64_t now = context_.now_ms();
  std::erase_if(by_id_, [now](const auto& entry) { return entry.second.expires_ms <= now; });
  auto write = [this, &row] { return context_.store.insert_sign_in(row); };
  CO_RETURN_IF_ERROR(co_await context_.pool.run(std::move(write)));
  const std::string subject = row.subject;
  by_id_.insert_or_assign(row.id, std::move(row));
  std::vector<std::string> too_many;
  const auto rows = list(subject);
  for (size_t i = kOfPersonMax; i < rows.size(); ++i) {
    too_many.push_back(rows[i].id);
  }
  if (!too_many.empty()) {
    CO_RETURN_IF_ERROR(co_await end(std::move(too_many)));
  }
  co_return Result<void>{};
}

const SignInRow* SignIns::find(const std::string& id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() || found->second.expires_ms <= context_.now_ms() ? nullptr
                                                                                : &found->second;
}

void SignIns::note_use(const std::string& id) {
  const auto found = by_id_.find(id);
  const int64_t now = context_.now_ms();
  if (found == by_id_.end() || now - found->second.last_used_ms < kUseWrittenEveryMs) {
    return;
  }
  found->second.last_used_ms = now;
  context_.journal.append(
      {.write = [id, now](store::Store& rows) { return rows.touch_sign_in(id, now); }, .then = {}});
}

std::vector<SignInRow> SignIns::list(std::string_view subject) const {
  const int64_t now = context_.now_ms();
  std::vector<SignInRow> out;
  for (const auto& [id, row] : by_id_) {
    if (row.expires_ms > now && (subject.empty() || row.subject == subject)) {
      out.push_back(row);
    }
  }
  std::ranges::sort(out, [](const SignInRow& a, const SignInRow& b) {
    return std::tie(a.created_ms, a.id) > std::tie(b.created_ms, b.id);
  });
  return out;
}

Task<Result<void>> SignIns::end(std::vector<std::string> ids) {
  auto write = [this, &ids] { return context_.store.delete_sign_ins(ids); };
  CO_RETURN_IF_ERROR(co_await context_.pool.run(std::move(write)));
  for (const std::string& id : ids) {
    by_id_.erase(id);
  }
  co_return Result<void>{};
}

}  // namespace service
