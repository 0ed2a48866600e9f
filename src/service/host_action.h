// HostAction: what an operator does by a command on the gateway's host, beside the API, for the
// audit log. Its row is stored before its work begins, or in the transaction that does it; where it
// then fails, or is refused before, a row with the error says so. The caller is "host:" and the
// user whose process it is, the row of no team, so that platform admins see it. Blocks; a process
// of its own.
#pragma once

#include <string_view>

#include "base/clock.h"
#include "store/store.h"
#include "wire/json.h"

namespace service {

// What comes before a user of the host, where a token's subject stands otherwise.
inline constexpr std::string_view kHostSubject = "host:";

class HostAction {
 public:
  // `event` is of static storage. The host's name is among the details.
  HostAction(store::Store& store, const base::Clock& clock, std::string_view event);
  HostAction(const HostAction&) = delete;
  HostAction& operator=(const HostAction&) = delete;

  wire::json::Object& details() { return details_; }
  // For who stores it together with the work.
  [[nodiscard]] store::AuditRow row() const;
  // It is about to be done.
  base::Result<void> record();
  // It was not, or not whole. The error; where the log cannot be told of it either, it says so.
  base::Error record_failure(base::Error error);

 private:
  store::Store& store_;
  const base::Clock& clock_;
  std::string_view event_;
  wire::json::Object details_;
};

}  // namespace service
