#include "service/host_action.h"

#include <pwd.h>
#include <unistd.h>

#include <array>

#include "service/audit.h"

namespace service {
namespace {

using base::ErrorCode;
using base::Result;

std::string caller_name() {
  const uid_t user = ::getuid();
  const passwd* const entry = ::getpwuid(user);
  return base::cat(kHostSubject, entry != nullptr ? entry->pw_name : std::to_string(user));
}

std::string host_name() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? audit_text(name.data()) : "";
}

}  // namespace

HostAction::HostAction(store::Store& store, const base::Clock& clock, std::string_view event)
    : store_(store), clock_(clock), event_(event) {
  details_["host"] = host_name();
}

store::AuditRow HostAction::row() const {
  return {.at_ms = base::to_ms(clock_.wall()),
          .event = std::string(event_),
          .caller = audit_text(caller_name()),
          .details_json = wire::json::serialize(details_)};
}

Result<void> HostAction::record() {
  RETURN_IF_ERROR(base::with_context(store_.append_audit({row()}), "audit log"));
  return {};
}

base::Error HostAction::record_failure(base::Error error) {
  for (const auto& [name, value] : error.details) {
    details_[name] = audit_text(value);
  }
  // One of the API's codes, as of every row.
  const std::string_view code =
      base::to_string(error.code == ErrorCode::io ? ErrorCode::internal : error.code);
  details_["error"] = code;
  store::AuditRow failure = row();
  failure.error = code;
  if (const auto stored = store_.append_audit({failure}); !stored) {
    error.message += base::cat("; this is not in the audit log: ", stored.error().message);
  }
  return error;
}

}  // namespace service
