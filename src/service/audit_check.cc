#include "service/audit_check.h"

#include "wire/audit_chain.h"

namespace service {
namespace {

using base::Result;

Result<std::string> verify(store::Store& store, std::string_view noted) {
  std::optional<model::AuditHead> head;
  if (!noted.empty()) {
    ASSIGN_OR_RETURN(head, wire::parse_audit_head(noted));
  }
  wire::AuditVerifier verifier(std::move(head));
  ASSIGN_OR_RETURN(const auto end, store.audit_head());
  for (int64_t after = 0; after < end.id;) {
    ASSIGN_OR_RETURN(const auto piece, store.audit_lines({}, after, end.id));
    after = piece.through;
    std::string_view rest = piece.lines;
    while (!rest.empty()) {
      const size_t newline = rest.find('\n');
      RETURN_IF_ERROR(verifier.add(rest.substr(0, newline)));
      rest.remove_prefix(newline + 1);
    }
  }
  ASSIGN_OR_RETURN(const auto report, verifier.finish());
  if (report.head.id != end.id) {
    return base::fail(base::ErrorCode::conflict, "the log ends with row ", report.head.id,
                      ", but its head is row ", end.id);
  }
  return wire::audit_report(report);
}

}  // namespace

Result<std::string> check_audit(store::Store& store, std::string_view word,
                                std::string_view noted) {
  if (word == "verify") {
    return verify(store, noted);
  }
  if (word == "head") {
    ASSIGN_OR_RETURN(const auto head, store.audit_head());
    return wire::audit_head_text(head);
  }
  return base::fail_field("audit", "audit takes verify or head");
}

}  // namespace service
